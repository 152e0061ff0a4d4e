/** A rollout in a run's files, in the form that scoring needs. */
import type { Row } from '../core/dataset.ts';
import { RewardError } from '../core/errors.ts';
import type { AskedRecord } from '../core/model.ts';
import type { TextSegment } from '../core/rubric.ts';
import { messageOf } from '../rollouts/message-columns.ts';
import { factsOf } from '../rollouts/rollout-columns.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import type { WirePlayedLine } from '../schemas/played-line.ts';
import type { WireMessage, WireResult } from '../schemas/results.ts';

export interface SavedRollout<R extends Row> {
  readonly result: WireResult;
  readonly row: R;
  /** Null if the run saved no states, such as an evaluation of a training run. */
  readonly played: WirePlayedLine | null;
  readonly asked: readonly AskedRecord[];
}

/** The rollout without its score or error, as it was when its episode had ended. Tokens and generations stay on file: no reward reads them. */
export function savedRollout<R extends Row>({ result, row, played, asked }: SavedRollout<R>): Rollout<R> {
  const { timing } = result;
  const ms = (seconds: number) => seconds * 1000;
  return {
    ...factsOf(result),
    row,
    prompt: result.prompt.map(messageOf),
    tools: result.tools ?? [],
    turnFormat: result.turn_format ?? 'chat',
    segments: savedSegments(result),
    branches: [],
    stop: played?.stop_condition ?? result.stop_condition,
    reward: null,
    metrics: {},
    error: null,
    cleanUpError: null,
    asked,
    generations: [],
    state: played?.state ?? unsavedState(),
    cutObservations: result.cut_observations,
    scoredWith: 0,
    attempts: result.attempts,
    timing: {
      startedAtMs: ms(timing.start_time),
      setupMs: ms(timing.setup.duration),
      generationMs: ms(timing.model.duration),
      environmentMs: ms(timing.env.duration),
      scoringMs: 0,
    },
  };
}

/** Fails the reward that reads it, which would otherwise treat a missing field as a value. */
function unsavedState(): Readonly<Record<string, unknown>> {
  const refuse = (what: string): never => {
    throw new RewardError(
      `The reward reads ${what} of the episode's state, which the run did not save. Play the row again, or use a rubric that reads texts alone.`,
    );
  };
  return new Proxy<Record<string, unknown>>(
    {},
    {
      get: (_, key) => (typeof key === 'string' ? refuse(`"${key}"`) : undefined),
      has: (_, key) => refuse(`"${String(key)}"`),
      ownKeys: () => refuse('all fields'),
    },
  );
}

/** The segments, with the messages of those that are not one plain message of their text: tool calls and their answers, images. */
function savedSegments({ segments, completion }: WireResult): readonly TextSegment[] {
  const blocks = messageBlocks(completion);
  const ofModel = segments.filter(({ kind }) => kind === 'model').length;
  // In continuation format the whole episode is one message.
  const isConversation = blocks.filter(({ isModel }) => isModel).length === ofModel;
  let next = 0;
  return segments.map(({ kind, text, reasoning }): TextSegment => {
    const segment = { kind: kind as TextSegment['kind'], text, ...(reasoning === undefined ? {} : { reasoning }) };
    if (!isConversation || kind === 'prefill') return segment;
    const block = blocks[next];
    if (block === undefined || block.isModel !== (kind === 'model')) return segment;
    next += 1;
    const [only, ...more] = block.messages;
    const isPlain = more.length === 0 && only!.tool_calls === undefined && only!.tool_call_id === undefined && only!.parts === undefined;
    return isPlain ? segment : { ...segment, messages: block.messages.map(messageOf) };
  });
}

interface Block {
  readonly isModel: boolean;
  readonly messages: WireMessage[];
}

/** Every turn of the assistant, and everything that the environment wrote between two of them. */
function messageBlocks(completion: readonly WireMessage[]): Block[] {
  const blocks: Block[] = [];
  for (const message of completion) {
    const isModel = message.role === 'assistant';
    const last = blocks.at(-1);
    if (last === undefined || isModel || last.isModel) blocks.push({ isModel, messages: [message] });
    else last.messages.push(message);
  }
  return blocks;
}
