/** The branches of a rollout as the files write them, and back. A rollout of one branch has no column of them. */
import type { Fork, ForkKind } from '../agents/fork.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import type { WireBranch, WireMessage } from '../schemas/branch-columns.ts';
import type { WireResult } from '../schemas/results.ts';
import { segmentMessages } from '../schemas/segment-messages.ts';
import { completionMessages, messageOf, wireMessage } from './message-columns.ts';
import type { Branch, Rollout } from './rollout.ts';

type Branched = Pick<Rollout, 'branches' | 'segments' | 'turnFormat' | 'tools'>;

/** Null for a rollout of one branch, which its other columns describe, unless the branch has a reward of its own or the segments are texts that an agent gave. */
export function branchColumns({ branches, segments, turnFormat, tools }: Branched): WireBranch[] | null {
  const played = branches.flatMap((branch) => branch.segments);
  const isPlayed = played.length === segments.length && played.every((segment, i) => segment === segments[i]);
  const isPlain = branches.every((branch) => Object.keys(ownColumns(branch)).length === 0);
  if (branches.length < 2 && isPlayed && isPlain) return null;
  const written: Conversation[] = [];
  return branches.map((branch, i) => {
    const prompt = branch.prompt.map(wireMessage);
    const keys = prompt.map((message) => canonicalJson(message));
    const { begins, rest } = i === 0 ? { begins: null, rest: 0 } : longest(written, keys);
    const completion = completionMessages({ segments: branch.segments, turnFormat, branches: [] });
    written.push({ keys: [...keys, ...completion.map((message) => canonicalJson(message))] });
    return {
      ...branchFactColumns(branch),
      segments: isPlayed ? branch.segments.length : 0,
      generations: branch.generations.length,
      tokens: branch.tokens?.length ?? null,
      sampled_tokens: branch.tokens?.sampledLength ?? null,
      ...ownColumns(branch),
      ...(i === 0 ? {} : { begins_with: begins, prompt: prompt.slice(rest) }),
      ...(canonicalJson(branch.tools) === canonicalJson(tools) ? {} : { tools: toolColumns(branch.tools) }),
      ...(isPlayed ? {} : { played: { segments: branch.segments.map(segmentColumns), completion } }),
    };
  });
}

export function segmentColumns({ kind, text, reasoning, messages = [] }: TextSegment): WireResult['segments'][number] {
  // Else a reader would take its messages up to one of the assistant, which begins a turn.
  const isCounted = kind !== 'model' && messages.some(({ role }) => role === 'assistant');
  return { kind, text, ...(reasoning === undefined ? {} : { reasoning }), ...(isCounted ? { message_count: messages.length } : {}) };
}

/** The branches, at least one: an agent that failed before the policy answered has its prompt alone. */
export function branchesOrPrompt({ branches, prompt, tools }: Pick<Rollout, 'branches' | 'prompt' | 'tools'>): readonly [Branch, ...Branch[]] {
  const [first, ...others] = branches;
  return [first ?? { parent: null, fork: null, prompt, tools, segments: [], generations: [], tokens: null }, ...others];
}

export function branchFactColumns({ parent, fork }: Pick<Branch, 'parent' | 'fork'>): Pick<WireBranch, 'parent' | 'fork'> {
  return { parent, fork: fork === null ? null : { kind: fork.kind, at: fork.at, difference: fork.difference } };
}

export function ownColumns({ role, reward, endsLast }: OwnOfBranch): Pick<WireBranch, 'role' | 'reward' | 'ends_last'> {
  // + 0 turns -0, which JSON does not preserve, into 0.
  return {
    ...(role === undefined ? {} : { role }),
    ...(reward === undefined ? {} : { reward: reward + 0 }),
    ...(endsLast === undefined ? {} : { ends_last: endsLast }),
  };
}

type OwnOfBranch = Pick<Branch, 'role' | 'reward' | 'endsLast'>;

export function ownOfColumns({ role, reward, ends_last: endsLast }: Pick<WireBranch, 'role' | 'reward' | 'ends_last'>): OwnOfBranch {
  return {
    ...(role === undefined ? {} : { role }),
    ...(reward === undefined ? {} : { reward }),
    ...(endsLast === undefined ? {} : { endsLast }),
  };
}

export function toolColumns(tools: readonly ToolSpec[]) {
  return tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
}

/** A fork of a file, whose kind another version may have written. */
export function forkOf(fork: WireBranch['fork']): Fork | null {
  return fork === null ? null : { ...fork, kind: fork.kind as ForkKind };
}

interface Conversation {
  /** Of its messages, prompt and completion. */
  readonly keys: readonly string[];
}

/** The conversation that has most messages in common with a prompt, the first of equal ones. */
function longest(written: readonly Conversation[], prompt: readonly string[]): { begins: { branch: number; messages: number } | null; rest: number } {
  let begins: { branch: number; messages: number } | null = null;
  for (const [branch, { keys }] of written.entries()) {
    let messages = 0;
    while (messages < prompt.length && keys[messages] === prompt[messages]) messages += 1;
    if (messages > (begins?.messages ?? 0)) begins = { branch, messages };
  }
  return { begins, rest: begins?.messages ?? 0 };
}

/** The prompts of the branches of a record. A branch that begins with messages that the record lacks begins with those that it has. */
function branchPrompts<M>(
  branches: readonly Pick<WireBranch, 'begins_with' | 'prompt'>[],
  { prompt, told }: { readonly prompt: readonly M[]; /** Of each branch, after its prompt. */ readonly told: readonly (readonly M[])[] },
  read: (message: WireMessage) => M,
): readonly (readonly M[])[] {
  const prompts: (readonly M[])[] = [];
  for (const [i, { begins_with: begins, prompt: own }] of branches.entries()) {
    const before = begins === null || begins === undefined ? [] : [...(prompts[begins.branch] ?? []), ...(told[begins.branch] ?? [])];
    prompts.push(i === 0 && own === undefined ? prompt : [...before.slice(0, begins?.messages ?? 0), ...(own ?? []).map(read)]);
  }
  return prompts;
}

/** The branches of a record of which `segments` are those with their messages. Tokens and generations stay on file. */
export function savedBranches(result: WireResult, segments: readonly TextSegment[]): readonly Branch[] {
  const { branches = [], tools = [], turn_format: turnFormat = 'chat' } = result;
  let at = 0;
  const parts = branches.map(({ played, segments: count }) => (played === undefined ? segments.slice(at, (at += count)) : savedSegments(played)));
  const told = parts.map((part) => completionMessages({ segments: part, turnFormat, branches: [] }).map(messageOf));
  const prompts = branchPrompts(branches, { prompt: result.prompt.map(messageOf), told }, messageOf);
  return branches.map(({ parent, fork, tools: own = tools, ...rest }, i) => ({
    parent,
    fork: forkOf(fork),
    prompt: prompts[i]!,
    tools: own,
    segments: parts[i]!,
    generations: [],
    tokens: null,
    ...ownOfColumns(rest),
  }));
}

/** The segments, with the messages of those that are not one plain message of their text: tool calls and their answers, images. */
export function savedSegments({ segments, completion }: Pick<WireResult, 'segments' | 'completion'>): readonly TextSegment[] {
  const ranges = segmentMessages(segments, completion);
  return segments.map(({ kind, text, reasoning }, i): TextSegment => {
    const segment = { kind: kind as TextSegment['kind'], text, ...(reasoning === undefined ? {} : { reasoning }) };
    const messages = ranges === null ? [] : completion.slice(ranges[i]!.start, ranges[i]!.end);
    const isPlain = messages.length <= 1 && messages.every((message) => isPlainMessage(message, kind === 'model' ? 'assistant' : 'user'));
    return isPlain ? segment : { ...segment, messages: messages.map(messageOf) };
  });
}

function isPlainMessage({ role, tool_calls: calls, tool_call_id: call, parts }: WireMessage, writer: string): boolean {
  return role === writer && calls === undefined && call === undefined && parts === undefined;
}
