/**
 * A rollout as a graph of messages, here a single path: each message with the tokens that it adds, so that the tokens of the path are exactly those of the
 * buffer. A turn of the policy has the tokens that were given before it sampled (mask false), then those that it sampled. The prompt's tokens are on its last
 * message, and those between two turns on the last message between them, because a chat template renders them as one.
 */
import { contentText, type Message } from '../../core/message.ts';
import type { TextSegment } from '../../core/rubric.ts';
import type { TokenBuffer } from '../../core/token-buffer.ts';
import type { Rollout } from '../../rollouts/rollout.ts';
import type { WireMessage, WireNode, WireTool } from '../../schemas/verifiers-wire/episode.ts';

export type TracedRollout = Pick<Rollout, 'prompt' | 'tools' | 'segments' | 'branches' | 'isCut' | 'generations'>;

/** Each generation is a node with `sampled: true`, in order. */
export function traceNodes({ prompt, tools, segments, branches, isCut, generations }: TracedRollout): readonly WireNode[] {
  const path = new Path(tools.map(({ name, description, parameters }) => ({ name, description, parameters })));
  // The policy did not see the tokens of a cut rollout as they are in the buffer, so no trainer may train on them.
  const reader = new TokenReader(isCut ? null : (branches[0]?.tokens ?? null));
  path.give(prompt.map(wireMessage), reader.given('prompt'));
  let prefill = '';
  let before: number[] = [];
  let turn = 0;
  for (const segment of segments) {
    if (segment.kind === 'prefill') {
      prefill = segment.text;
      before.push(...reader.given('prefill'));
    } else if (segment.kind === 'model') {
      before.push(...reader.given(null));
      path.sample(sampledMessage(segment, prefill), before, reader.sampled(generations[turn]?.keptTokens ?? 0));
      [prefill, before] = ['', []];
      turn += 1;
    } else path.give(observedMessages(segment), reader.given(segment.kind));
  }
  before.push(...reader.given(null));
  // The policy failed to continue it.
  if (prefill !== '' || before.length > 0) path.give([{ role: 'assistant', content: prefill }], before);
  return path.nodes;
}

class Path {
  readonly nodes: WireNode[] = [];
  readonly #tools: readonly WireTool[];

  constructor(tools: readonly WireTool[]) {
    this.#tools = tools;
  }

  give(messages: readonly WireMessage[], ids: readonly number[]): void {
    for (const [i, message] of messages.entries()) this.#add(message, false, i === messages.length - 1 ? ids : [], NO_SAMPLE);
  }

  sample(message: WireMessage, before: readonly number[], sample: Sample): void {
    this.#add(message, true, before, sample);
  }

  #add(message: WireMessage, sampled: boolean, given: readonly number[], { ids, logProbs }: Sample): void {
    const isRoot = this.nodes.length === 0;
    this.nodes.push({
      parent: isRoot ? null : this.nodes.length - 1,
      message,
      sampled,
      token_ids: [...given, ...ids],
      mask: [...given.map(() => false), ...ids.map(() => true)],
      logprobs: logProbs,
      ...(isRoot && this.#tools.length > 0 ? { tools: this.#tools } : {}),
    });
  }
}

/** Parallel arrays. */
interface Sample {
  readonly ids: readonly number[];
  readonly logProbs: readonly number[];
}

const NO_SAMPLE: Sample = { ids: [], logProbs: [] };

/** Reads a buffer from its start to its end. Given null, it reads nothing. */
class TokenReader {
  readonly #ids: Int32Array;
  readonly #logProbs: Float64Array;
  readonly #segments: TokenBuffer['segments'];
  #next = 0;

  constructor(tokens: TokenBuffer | null) {
    this.#ids = tokens?.ids ?? new Int32Array(0);
    this.#logProbs = tokens?.logProbs ?? new Float64Array(0);
    this.#segments = tokens?.segments ?? [];
  }

  /** Through the next segment of this kind, or, without one, up to the next sampled token. */
  given(kind: TokenBuffer['segments'][number]['kind'] | null): number[] {
    const ids: number[] = [];
    for (let segment = this.#segments[this.#next]; segment !== undefined && segment.kind !== 'model'; segment = this.#segments[this.#next]) {
      this.#next += 1;
      ids.push(...this.#ids.subarray(segment.start, segment.end));
      if (segment.kind === kind) break;
    }
    return ids;
  }

  /** One generation: a segment, and another one if only the end of its turn was kept. */
  sampled(count: number): Sample {
    const first = this.#segments[this.#next];
    if (first?.kind !== 'model') return NO_SAMPLE;
    this.#next += 1;
    let { end } = first;
    while (end - first.start < count && this.#segments[this.#next]?.kind === 'model') end = this.#segments[this.#next++]!.end;
    return { ids: [...this.#ids.subarray(first.start, end)], logProbs: [...this.#logProbs.subarray(first.start, end)] };
  }
}

function sampledMessage({ text, messages }: TextSegment, prefill: string): WireMessage {
  return messages?.[0] === undefined ? { role: 'assistant', content: prefill + text } : wireMessage(messages[0]);
}

function observedMessages({ text, messages }: TextSegment): readonly WireMessage[] {
  return messages === undefined || messages.length === 0 ? [{ role: 'user', content: text }] : messages.map(wireMessage);
}

/** Without images: their bytes are not in the record. */
function wireMessage({ role, content, toolCalls, toolCallId }: Message): WireMessage {
  return {
    role,
    content: contentText(content),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })) }),
    ...(role === 'tool' ? { tool_call_id: toolCallId ?? '' } : {}),
  };
}
