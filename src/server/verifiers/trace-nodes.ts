/**
 * A rollout as a tree of messages: each message with the tokens that it adds, so that the tokens and masks of the path of a branch are exactly those of its buffer. A turn of
 * the policy has the tokens that were given before it sampled (mask false), then those that it sampled. The prompt's tokens are on its last message, and those between two turns
 * on the last message between them, because a chat template renders them as one. Branches share the given messages with which they begin. A turn of another branch is a given
 * message in the path of this one: in verifiers a shared node would be trained once for each path.
 */
import { contentText, type Message } from '../../core/message.ts';
import type { TextSegment } from '../../core/rubric.ts';
import type { TokenBuffer } from '../../core/token-buffer.ts';
import { branchesOrPrompt } from '../../rollouts/branch-columns.ts';
import type { Branch, Rollout } from '../../rollouts/rollout.ts';
import type { WireMessage, WireNode, WireTool } from '../../schemas/verifiers-wire/episode.ts';

export type TracedRollout = Pick<Rollout, 'prompt' | 'tools' | 'branches' | 'isCut'>;

/** Each generation is a node with `sampled: true`, in order. The last node of each branch's path is a leaf. */
export function traceNodes(rollout: TracedRollout): readonly WireNode[] {
  const nodes: WireNode[] = [];
  for (const branch of branchesOrPrompt(rollout)) addPath(nodes, branch, rollout.isCut);
  return nodes;
}

function addPath(nodes: WireNode[], { prompt, tools, segments, tokens, generations }: Branch, isCut: boolean): void {
  const path = new Path(nodes, toolsOnWire(tools));
  // The policy did not see the tokens of a cut rollout as they are in the buffer, so no trainer may train on them.
  const reader = new TokenReader(isCut ? null : tokens);
  path.begin(prompt.map(wireMessage), reader.given('prompt'));
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
}

export function toolsOnWire(tools: Branch['tools']): readonly WireTool[] {
  return tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
}

class Path {
  readonly #nodes: WireNode[];
  readonly #tools: readonly WireTool[];
  #last: number | null = null;

  constructor(nodes: WireNode[], tools: readonly WireTool[]) {
    this.#nodes = nodes;
    this.#tools = tools;
  }

  /** The prompt, from the first message on that no other path begins with in the same place. */
  begin(messages: readonly WireMessage[], ids: readonly number[]): void {
    let [shared, at] = [0, 0];
    for (; shared < messages.length; shared++) {
      const rest = shared === messages.length - 1 ? ids.slice(at) : null;
      const next = this.#nodes.findIndex((node) => this.#isSame(node, messages[shared]!, rest ?? ids.slice(at, at + node.token_ids.length)));
      if (next === -1) break;
      this.#last = next;
      at += this.#nodes[next]!.token_ids.length;
    }
    this.give(messages.slice(shared), ids.slice(at));
  }

  give(messages: readonly WireMessage[], ids: readonly number[]): void {
    for (const [i, message] of messages.entries()) this.#add(message, false, i === messages.length - 1 ? ids : [], NO_SAMPLE);
  }

  sample(message: WireMessage, before: readonly number[], sample: Sample): void {
    this.#add(message, true, before, sample);
  }

  /** True for a given message that follows the path so far. */
  #isSame(node: WireNode, message: WireMessage, ids: readonly number[]): boolean {
    if (node.parent !== this.#last || node.sampled || node.message.content !== message.content) return false;
    if (node.token_ids.length !== ids.length || node.token_ids.some((id, i) => id !== ids[i])) return false;
    const text = (given: WireMessage, tools: readonly WireTool[] = []) => JSON.stringify([given, tools]);
    return text(node.message, node.tools) === text(message, this.#last === null ? this.#tools : []);
  }

  #add(message: WireMessage, sampled: boolean, given: readonly number[], { ids, logProbs }: Sample): void {
    const isRoot = this.#last === null;
    this.#nodes.push({
      parent: this.#last,
      message,
      sampled,
      token_ids: [...given, ...ids],
      mask: [...given.map(() => false), ...ids.map(() => true)],
      logprobs: logProbs,
      ...(isRoot && this.#tools.length > 0 ? { tools: this.#tools } : {}),
    });
    this.#last = this.#nodes.length - 1;
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
