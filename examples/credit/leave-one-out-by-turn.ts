/** The discounted return of each turn, compared with the mean of the same turn in the other rollouts of the row: RLOO (arXiv 2402.14740) by turn. */
import type { CreditFactory } from 'vf-search/trainer';

export const createCredit: CreditFactory = ({ gamma = 1 }) => ({
  assign({ groups }) {
    const advantages = groups.map((group) => {
      const returns = group.map(({ turns, reward }) => {
        const own = turns.map((turn) => turn.reward ?? 0);
        own[own.length - 1]! += reward;
        for (let k = own.length - 2; k >= 0; k--) own[k]! += Number(gamma) * own[k + 1]!;
        return own;
      });
      return returns.map((own, i) =>
        own.map((value, k) => {
          const others = returns.flatMap((other, j) => (j === i ? [] : (other[k] ?? [])));
          // Null leaves the turn out of the loss: no other rollout reached it.
          return others.length === 0 ? null : value - others.reduce((sum, each) => sum + each, 0) / others.length;
        }),
      );
    });
    const firsts = groups.flat().flatMap(({ turns }) => turns[0]?.reward ?? []);
    return { advantages, values: { 'credit/first_turn': firsts.reduce((sum, each) => sum + each, 0) / Math.max(firsts.length, 1) } };
  },
});
