/** An episode in which a harness outside this package calls the model, turn by turn, as a chat. */
import type { ChatLease } from '../clients/policy-client.ts';
import { untilAborted } from '../core/abort.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment, StopCondition } from '../core/environment.ts';
import { ConfigError, EnvironmentError } from '../core/errors.ts';
import { contentText, type Message, type ToolCall } from '../core/message.ts';
import type { Models } from '../core/model.ts';
import { Random } from '../core/random.ts';
import { spelledCalls } from '../core/spelled-calls.ts';
import { isToolCall } from '../core/tool-calls.ts';
import { readsThoughts } from '../core/reads-thoughts.ts';
import { ChatTranscript } from './chat-transcript.ts';
import { checkedEpisode } from './checked-episode.ts';
import { checkedKeep, checkedStep } from './checked-step.ts';
import { checkedTurnReward } from './checked-turn-reward.ts';

export interface DriveOptions {
  readonly seed: number;
  readonly models: Models;
  readonly signal: AbortSignal;
}

const CAPABILITIES = { kind: 'chat', maxModelLen: null, tokenizerHash: null, logProbsMode: 'none' } as const;
const NO_USAGE = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/** Nobody calls it: the harness brings the turns. */
const NO_LEASE: ChatLease = {
  kind: 'chat',
  policy: { model: 'harness', version: 0 },
  generate: () => Promise.reject(new EnvironmentError('A harness drives this episode: give its turns to step')),
  async [Symbol.asyncDispose]() {},
};

export async function driveEpisode<R extends Row>(environment: Environment<R>, row: R, { seed, models, signal }: DriveOptions) {
  const episode = await environment.start(row, { random: Random.fromSeed(seed), models, signal });
  const { prompt, tools = [], prefill, stop: stopStrings } = checkedEpisode(episode);
  const transcript = new ChatTranscript(NO_LEASE, {
    prompt,
    tools,
    variables: {},
    limits: episode.limits ?? environment.limits,
    capabilities: CAPABILITIES,
    maxTokens: null,
    overlong: 'stop',
    turnFormat: 'chat',
    tokens: {},
    readsThoughts: readsThoughts(environment.rubric, row),
    signal,
  });
  let stop: StopCondition | null = null;
  let nextPrefill = prefill;
  const turnRewards: (number | null)[] = [];
  let failure: unknown = null;
  const play = async ({ content, toolCalls }: ReturnType<typeof turnOf>): Promise<void> => {
    await transcript.openTurn(nextPrefill);
    const sample = { text: spelledCalls(content, toolCalls), content, toolCalls, finish: 'stop', stopReason: null, usage: NO_USAGE } as const;
    const kept = sample.text.slice(0, checkedKeep(episode.keep(sample.text)));
    const { toolCalls: attempts } = transcript.commit(sample, kept.length);
    const step = episode.step(kept, { finish: 'stop', stopReason: null, toolCalls: attempts, signal });
    const { observation, stop: end, next, reward } = checkedStep(await untilAborted(step, signal));
    turnRewards.push(reward === undefined ? null : checkedTurnReward(reward, turnRewards.length + 1));
    if (observation !== null) await transcript.observe(observation);
    stop = end;
    nextPrefill = next?.prefill ?? prefill;
  };
  return {
    prompt,
    tools,
    stopStrings,
    get messages() {
      return transcript.messages;
    },
    get segments() {
      return transcript.segments;
    },
    get state() {
      return episode.state;
    },
    get stop() {
      return stop;
    },
    get turnRewards() {
      return [...turnRewards];
    },
    async step(reply: string | Message): Promise<void> {
      if (stop !== null) throw new EnvironmentError(`The episode is over (${stop}). Start another one.`);
      if (failure !== null)
        throw new EnvironmentError('The episode failed at an earlier turn, so it has no reward. Start another one.', { cause: failure });
      const turn = turnOf(reply);
      try {
        await play(turn);
      } catch (error) {
        // The turn is in the transcript, and the environment may have taken half of it.
        failure = error;
        throw error;
      }
    },
    [Symbol.asyncDispose]: () => Promise.resolve(episode[Symbol.asyncDispose]()),
  };
}

function turnOf(reply: string | Message): { readonly content: string; readonly toolCalls: readonly ToolCall[] } {
  if (typeof reply === 'string') return { content: reply, toolCalls: [] };
  if (typeof reply !== 'object' || reply === null || reply.role !== 'assistant')
    throw new ConfigError("A turn of the model is its text, or a message such as { role: 'assistant', content: '...', toolCalls: [...] }");
  const { content, toolCalls = [] } = reply;
  if (!Array.isArray(toolCalls) || !toolCalls.every(isToolCall))
    throw new ConfigError('A tool call of a message is { id, name, arguments }, three texts; arguments is the JSON that the model wrote');
  return { content: contentText(content), toolCalls };
}
