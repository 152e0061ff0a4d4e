/** The deadlines of a rollout and the models by role: a wait for a slot of a role uses up neither. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { Model, Models } from '../../src/core/model.ts';
import { MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { groupReward, reward, type RewardContext, Rubric } from '../../src/core/rubric.ts';
import { openRoleModels } from '../../src/models/role-models.ts';
import { deadlineOf } from '../../src/rollouts/deadline.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { type RunOptions, runRollouts } from '../../src/rollouts/run-rollouts.ts';

const USAGE = { promptTokens: 1, completionTokens: 1, cachedTokens: null } as const;

/** Takes the role's only slot with its first call, which never ends by itself, and answers all others at once. */
function slowStarter(): Model {
  let calls = 0;
  return {
    name: 'slow starter',
    async generate() {
      calls += 1;
      if (calls === 1) await new Promise<never>(() => {});
      return { text: '1', usage: USAGE, finish: 'stop', version: null };
    },
  };
}

const ask = (models: Models, signal: AbortSignal) => models['judge']!.generate([{ role: 'user', content: 'q' }], { maxTokens: 1, signal });

/** Asks the judge before an episode begins if `asksEarly`. */
class AskingEnv extends MultiTurnEnv {
  readonly #asksEarly: boolean;

  constructor({ rubric = new Rubric({ funcs: [reward(() => 1, { name: 'one' })] }), asksEarly = false }: { rubric?: Rubric; asksEarly?: boolean }) {
    const rows = [0, 1, 2].map((exampleId) => ({ exampleId, prompt: [{ role: 'user' as const, content: 'q' }] }));
    super({ id: 'asking', eval: new Dataset('rows', rows), rubric, maxTurns: 1, turnFormat: 'chat' });
    this.#asksEarly = asksEarly;
  }

  protected async setupState(_: Row, { models, signal }: { models?: Models; signal: AbortSignal }) {
    if (this.#asksEarly) await ask(models!, signal);
    return { turns: 0 };
  }

  protected async envResponse() {
    return { done: true };
  }
}

async function play(environment: AskingEnv, more: Partial<RunOptions<Row>>): Promise<readonly Rollout[]> {
  const each = environment.rubric.hasGroupRewards ? [0, 1] : [0];
  await using models = await openRoleModels({ judge: { model: slowStarter(), maxConcurrent: 1, timeoutMs: Infinity, maxRetries: 0 } });
  const groups = runRollouts(
    [...environment.eval].map((row) => ({ row, indices: each })),
    {
      environment,
      client: new ScriptedClient({ tokenizer: 'code-points', turns: ['done'] }),
      models,
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 8,
      maxReplays: 0,
      timeoutMs: null,
      seed: 0,
      signal: new AbortController().signal,
      ...more,
    },
  );
  const played: Rollout[] = [];
  for await (const { rollouts } of groups) played.push(...rollouts);
  return played;
}

const outcomes = (rollouts: readonly Rollout[]) => rollouts.map(({ error }) => error?.type ?? 'scored').toSorted();

describe('a wait for a slot of a role', () => {
  it('uses up no time of a reward: only the call that holds the slot for too long fails', async () => {
    const rubric = new Rubric({ funcs: [reward(async ({ models, signal }) => Number((await ask(models, signal)).text), { name: 'judge' })] });
    expect(outcomes(await play(new AskingEnv({ rubric }), { scoringTimeoutMs: 250 }))).toEqual(['TimeoutError', 'scored', 'scored']);
  });

  // The member whose time is over first need not be the one whose signal the work listens to. If that did not abort, the call would hold the slot for good.
  it.each([0, 1])('uses up no time of the other members of a group that is scored together {less time left: %i}', async (shorter) => {
    let owns = 0;
    const own = async () => (owns++ % 2 === shorter ? sleep(50, 0) : 0);
    const together = async (contexts: readonly RewardContext[]) => {
      const { text } = await ask(contexts[0]!.models, contexts[0]!.signal);
      return contexts.map(() => Number(text));
    };
    const rubric = new Rubric({ funcs: [reward(own, { name: 'own' }), groupReward(together, { name: 'together' })] });
    const [late, scored] = [Array(2).fill('TimeoutError'), Array(4).fill('scored')];
    expect(outcomes(await play(new AskingEnv({ rubric }), { scoringTimeoutMs: 250 }))).toEqual([...late, ...scored]);
  });

  it('uses up no time of an episode', async () => {
    expect(outcomes(await play(new AskingEnv({ asksEarly: true }), { timeoutMs: 250 }))).toEqual(['TimeoutError', 'scored', 'scored']);
  });
});

describe('deadlineOf()', () => {
  it('stands still while it is held, goes on when the last hold ends, and never after it was disposed', async () => {
    const run = new AbortController();
    const deadline = deadlineOf({ timeoutMs: 20, what: 'It did not end', option: '--limit' }, run.signal);
    const [first, second] = [deadline.hold(), deadline.hold()];
    const spentMs = deadline.spentMs;
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await sleep(60);
    expect([deadline.signal.aborted, deadline.spentMs]).toEqual([false, spentMs]);
    second[Symbol.dispose]();
    await new Promise((resolve) => deadline.signal.addEventListener('abort', resolve));
    expect((deadline.signal.reason as Error).message).toBe('It did not end within 0.02 s. Raise --limit if it needs more time.');

    const disposed = deadlineOf({ timeoutMs: 20, what: 'It did not end', option: '--limit' }, run.signal);
    const held = disposed.hold();
    disposed[Symbol.dispose]();
    held[Symbol.dispose]();
    await sleep(60);
    expect(disposed.signal.aborted).toBe(false);
  });
});
