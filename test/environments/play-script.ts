/** Plays a row of an environment against a policy that writes given turns, and judges it with the environment's rubric. */
import { type Environment, Random, type RewardContext, type Row, type Score } from 'vf-search';
import type { Models } from 'vf-search/environment-kit';
import { type Played, playEpisode } from 'vf-search/rollouts';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';

export interface PlayedEpisode<R extends Row> {
  readonly played: Played;
  readonly row: R;
  readonly score: () => Promise<Score>;
}

export interface PlayOptions extends Omit<ScriptedOptions, 'turns'> {
  /** Of the row in the held-out rows. @default 0 */
  readonly index?: number;
  /** Models of the environment's roles. @default none */
  readonly models?: Models;
  readonly signal?: AbortSignal;
}

/** By default the policy has one token per code point. */
export async function playScript<R extends Row>(
  environment: Environment<R>,
  turns: readonly string[],
  { index = 0, models, signal = new AbortController().signal, ...script }: PlayOptions = {},
): Promise<PlayedEpisode<R>> {
  const client = new ScriptedClient({ tokenizer: 'code-points', ...script, turns });
  const row = environment.eval.at(index);
  await using lease = await client.lease(signal);
  const played = await playEpisode({
    environment,
    row,
    lease,
    capabilities: client.capabilities,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    random: Random.fromSeed(1),
    ...(models === undefined ? {} : { models: { models, asked: [] } }),
    signal,
  });
  return { played, row, score: () => environment.rubric.score(contextOf(environment, row, played)) };
}

function contextOf<R extends Row>({ rubric }: Environment<R>, row: R, { segments, stop, state }: Played): RewardContext<R> {
  const join = (kept: Played['segments']) => kept.map((s) => s.text).join('');
  return {
    row,
    prompt: row.prompt,
    segments,
    scoredText: join(segments),
    modelText: join(segments.filter((s) => s.kind === 'model')),
    stop,
    state,
    parser: rubric.parser,
    models: {},
    signal: new AbortController().signal,
  };
}
