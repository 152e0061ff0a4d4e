/** Recorded model calls: conversion to and from lines of `asked.jsonl`, and totals by role. */
import type { ContentPart, Message, MessageContent } from '../core/message.ts';
import type { AskedRecord } from '../core/model.ts';
import type { WireAsked, WireAskedLine } from '../schemas/asked-line.ts';
import { snakeKeys } from '../schemas/key-case.ts';
import type { RoleStats, WireRoleStats } from '../schemas/role-stats.ts';
import { RoleTally } from './role-tally.ts';

/** The line of a rollout; null if it called no model. The caller redacts secrets. */
export function askedLine(rolloutId: string, asked: readonly AskedRecord[]): WireAskedLine | null {
  return asked.length === 0 ? null : { schema_version: 1, rollout_id: rolloutId, asked: asked.map(toWire) };
}

export function askedFromLine({ asked }: WireAskedLine): readonly AskedRecord[] {
  return asked.map(fromWire);
}

/** Adds up records by role, in the order of the roles' first calls. In a resumed run, those of its earlier rollouts come first. */
export class AskedTally {
  readonly #tallies = new Map<string, RoleTally>();

  add(asked: readonly AskedRecord[]): void {
    for (const record of asked) this.#of(record.role).add(record);
  }

  /** The totals by role. `live`: the failures of this process, which are not recorded. */
  stats(live: ReadonlyMap<string, Pick<RoleStats, 'failures'>> = new Map()): Readonly<Record<string, RoleStats>> {
    const roles = new Set([...this.#tallies.keys(), ...[...live].filter(([, { failures }]) => failures > 0).map(([role]) => role)]);
    return Object.fromEntries([...roles].map((role) => [role, { ...this.#of(role).stats, failures: live.get(role)?.failures ?? 0 }]));
  }

  #of(role: string): RoleTally {
    const tally = this.#tallies.get(role) ?? new RoleTally();
    this.#tallies.set(role, tally);
    return tally;
  }
}

/** Role names are kept unchanged; they have no capital letters. */
export function roleStatsToWire(stats: Readonly<Record<string, RoleStats>>): Record<string, WireRoleStats> {
  return Object.fromEntries(Object.entries(stats).map(([role, figures]) => [role, snakeKeys(figures) as WireRoleStats]));
}

function toWire({ role, model, version, usage, finish, ms, waitMs, attempts, messages, text, reasoning }: AskedRecord): WireAsked {
  const { promptTokens, completionTokens, cachedTokens } = usage;
  const counts = { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens };
  return {
    role,
    model,
    version,
    usage: counts,
    finish,
    ms: rounded(ms),
    wait_ms: rounded(waitMs),
    attempts,
    messages: messages.map(messageToWire),
    text,
    ...(reasoning === undefined ? {} : { reasoning }),
  };
}

function fromWire({ usage, wait_ms: waitMs, messages, ...same }: WireAsked): AskedRecord {
  const { input_tokens: promptTokens, output_tokens: completionTokens, cached_tokens: cachedTokens } = usage;
  return { ...same, waitMs, usage: { promptTokens, completionTokens, cachedTokens }, messages: messages.map(messageFromWire) };
}

function messageToWire({ role, content, toolCalls, toolCallId }: Message): WireAsked['messages'][number] {
  return {
    role,
    content: typeof content === 'string' ? content : content.map(partToWire),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map((call) => ({ ...call })) }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

type WireContent = WireAsked['messages'][number]['content'];
type WirePart = Exclude<WireContent, string>[number];

function partToWire(part: ContentPart): WirePart {
  if (part.type === 'text') return { ...part };
  const { sha256, mediaType, width, height } = part.image;
  return { type: 'image', image: { sha256, media_type: mediaType, width, height } };
}

function messageFromWire({ role, content, tool_calls: toolCalls, tool_call_id: toolCallId }: WireAsked['messages'][number]): Message {
  return {
    role: role as Message['role'],
    content: contentFromWire(content),
    ...(toolCalls === undefined ? {} : { toolCalls }),
    ...(toolCallId === undefined ? {} : { toolCallId }),
  };
}

function contentFromWire(content: WireContent): MessageContent {
  if (typeof content === 'string') return content;
  return content.map((part): ContentPart => {
    if (part.type === 'text') return part;
    const { media_type: mediaType, ...image } = part.image;
    return { type: 'image', image: { ...image, mediaType } };
  });
}

/** To microseconds. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
