/** A play of an environment's first row by a scripted policy, through the real rollout loop. */
import { type Environment, type Models, type Played, playEpisode, Random, type RewardContext, type Row, type Score } from 'vf-search';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';

export interface PlayedEpisode<R extends Row> {
  readonly played: Played;
  readonly row: R;
  readonly score: () => Promise<Score>;
}

export interface FirstRowOptions extends Omit<ScriptedOptions, 'turns'> {
  /** Models of the environment's roles. @default none */
  readonly models?: Models;
  readonly signal?: AbortSignal;
}

/** The policy writes `turns`, one token per code point. */
export async function playFirstRow<R extends Row>(
  environment: Environment<R>,
  turns: ScriptedOptions['turns'],
  { models, signal = new AbortController().signal, ...script }: FirstRowOptions = {},
): Promise<PlayedEpisode<R>> {
  const client = new ScriptedClient({ tokenizer: 'code-points', ...script, turns });
  const row = environment.eval.at(0);
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
