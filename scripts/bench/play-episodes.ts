/** Plays every row of an environment once with a scripted policy, for benchmarks of episodes. */
import type { Environment, Row } from 'vf-search';
import { type RoleModels, type Rollout, runRollouts } from 'vf-search/rollouts';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';

export interface PlayEpisodesOptions<R extends Row> {
  readonly environment: Environment<R>;
  /** The policy's text in each of the two turns. */
  readonly turns: ScriptedOptions['turns'];
  readonly concurrency: number;
  /** @default none */
  readonly models?: RoleModels;
  /** @default does nothing */
  readonly onRollout?: (rollout: Rollout<R>) => void;
}

/** Throws if an episode fails or does not have two turns. */
export async function playEpisodes<R extends Row>({
  environment,
  turns,
  concurrency,
  models,
  onRollout = () => {},
}: PlayEpisodesOptions<R>): Promise<void> {
  const options = {
    environment,
    client: new ScriptedClient({ turns }),
    ...(models === undefined ? {} : { models }),
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: concurrency,
    timeoutMs: null,
    seed: 0,
    signal: new AbortController().signal,
    onRollout,
  };
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  for await (const { rollouts } of runRollouts(groups, options)) {
    const { error, generations } = rollouts[0]!;
    if (error !== null || generations.length !== 2)
      throw new Error(`An episode must have two turns and no error, but it has ${generations.length}: ${error?.chain}`);
  }
}
