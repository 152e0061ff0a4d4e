/**
 * REINFORCE++ with a baseline (arXiv 2501.03262): the reward minus the mean of its row, then whitened over the tokens of the whole batch, with n - 1 and 1e-8 as in verl. The
 * paper adds a KL penalty by k2 to the loss: algorithm.kl.placement = "loss", estimator = "k2".
 */
import type { CreditFactory } from 'vf-search/trainer';

export const createCredit: CreditFactory = () => ({
  assign({ groups }) {
    const centred = groups.map((group) => {
      const mean = group.reduce((sum, { reward }) => sum + reward, 0) / group.length;
      return group.map(({ reward, tokens }) => ({ value: reward - mean, tokens }));
    });
    const all = centred.flat();
    const count = all.reduce((sum, { tokens }) => sum + tokens, 0);
    const mean = all.reduce((sum, { value, tokens }) => sum + value * tokens, 0) / Math.max(count, 1);
    const variance = all.reduce((sum, { value, tokens }) => sum + (value - mean) ** 2 * tokens, 0) / Math.max(count - 1, 1);
    return { advantages: centred.map((group) => group.map(({ value }) => (value - mean) / Math.sqrt(variance + 1e-8))) };
  },
});
