/** Recorded replies of servers, each played by policy, role and pipeline: all three must read them alike, and ask as the server demands. */
import { describe, expect, test } from 'vitest';
import { playAsPipeline, playAsPolicy, playAsRole, RETRIES } from './players.ts';
import type { Body } from './recorded-server.ts';
import { type ExpectedFailure, type ExpectedTurn, type Play, readRecordings } from './recording.ts';

const recordings = readRecordings();

describe.each(recordings.map((recording) => [`${recording.server}, ${recording.model}`, recording.plays] as const))('%s', (_, plays) => {
  describe.each(plays.map((play) => [play.name, play] as const))('%s', (__, play) => {
    const { turns = [], failure = null, sent = {}, requests } = play.expect;

    test.each(['auto', true] as const)('policy, asked for streams: %s', async (stream) => {
      const { rollout, bodies } = await playAsPolicy(play, { stream });
      const { error, stop } = rollout;
      const isTooLong = failure?.kind === 'tooLong' && stop === 'prompt_too_long' && error?.type === 'UnplayedError';
      const failed = error === null ? null : { kind: kindOf(error), message: error.message };
      const asked = requests ?? (failure?.kind === 'retryable' ? RETRIES + 1 : bodies.length);
      expect({
        turns: failure === null ? shown(rollout) : [],
        failure: isTooLong ? matched({ kind: 'tooLong', message: failed!.message }, failure) : matched(failed, failure),
        type: error?.type,
        sent: differences(bodies, play),
        requests: bodies.length,
        own: bodies.at(-1)!.messages.findLast(({ role }) => role === 'assistant') ?? {},
      }).toEqual({
        turns: turns.map(whole),
        failure,
        type: failure === null ? undefined : isTooLong ? 'UnplayedError' : 'PolicyError',
        sent: [],
        requests: asked,
        own: expect.objectContaining(deep(sent.assistant ?? {})),
      });
    });

    test('role', async () => {
      const { bodies, ...outcome } = await playAsRole(play);
      expect({ ...seen(outcome, failure), sent: differences(bodies, play) }).toEqual({ ...wanted(play, (turn) => said(turn)), sent: [] });
    });

    test.each([false, true])('pipeline, with stop strings kept: %s', async (keepsStop) => {
      const { bodies, ...outcome } = await playAsPipeline(play, { keepsStop });
      expect({ ...seen(outcome, failure), sent: differences(bodies, play) }).toEqual({
        ...wanted(play, (turn) => answerOf(turn, keepsStop)),
        sent: [],
      });
    });
  });
});

test('every recording names its sources and is played', () => {
  expect(recordings.length).toBeGreaterThanOrEqual(20);
  const lacking = recordings.filter(({ sources, plays }) => {
    const isSourced = sources.length > 0 && sources.every((source) => URL.parse(source)?.protocol === 'https:');
    return !isSourced || plays.length === 0 || plays.some(({ expect: { turns = [], failure } }) => turns.length > 0 === (failure !== undefined));
  });
  expect(lacking.map(({ server, model }) => `${server}, ${model}`)).toEqual([]);
});

type WholeTurn = ReturnType<typeof whole>;

function whole(turn: ExpectedTurn) {
  const { text, reasoning, finish = 'stop', stopReason = null, isGuess = false, wasIgnored = false, calls = [] } = turn;
  return { text, reasoning, finish, stopReason, isGuess, wasIgnored, calls: [...calls] };
}

/** The turns of a rollout, as recordings have them. */
function shown({ segments, generations }: Awaited<ReturnType<typeof playAsPolicy>>['rollout']): WholeTurn[] {
  return segments
    .filter(({ kind }) => kind === 'model')
    .map(({ text, reasoning, messages = [] }, i) => {
      const { finish, stopReason, stopIsGuess: isGuess = false, stopWasIgnored: wasIgnored = false } = generations[i]!;
      const calls = messages.flatMap(({ toolCalls = [] }) => toolCalls);
      return {
        text: calls.length === 0 ? text : (messages[0]!.content as string),
        reasoning,
        finish,
        stopReason,
        isGuess,
        wasIgnored,
        calls: calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) as unknown })),
      };
    });
}

interface Thrown {
  readonly retryable: boolean;
  readonly endsRun?: boolean;
  readonly message: string;
}

function kindOf({ retryable, endsRun = false }: Thrown): ExpectedFailure['kind'] {
  if (endsRun) return 'endsRun';
  return retryable ? 'retryable' : 'final';
}

/** The expected failure if it is this one; otherwise what there is instead. */
function matched(failed: ExpectedFailure | null, expected: ExpectedFailure | null): ExpectedFailure | null {
  if (failed === null || expected === null || !new RegExp(expected.message).test(failed.message)) return failed;
  return { ...failed, message: expected.message };
}

function seen(outcome: { readonly value: unknown } | { readonly error: Thrown & Error }, expected: ExpectedFailure | null) {
  if ('value' in outcome) return { value: outcome.value, failure: null };
  const { error } = outcome;
  // A role and a pipeline have no episodes to end.
  const kind = expected?.kind === 'tooLong' && kindOf(error) === 'final' ? 'tooLong' : kindOf(error);
  return { value: undefined, failure: matched({ kind, message: error.message }, expected) };
}

function wanted({ tools, expect: { turns = [], failure } }: Play, valueOf: (turn: WholeTurn) => unknown) {
  // A request without tools gets the last answer.
  const turn = tools === undefined ? turns[0] : turns.at(-1);
  return { value: turn === undefined ? undefined : valueOf(whole(turn)), failure: failure ?? null };
}

function said({ text, reasoning, finish }: WholeTurn) {
  return { text, reasoning, finish };
}

/** What a pipeline's file gets: the text without its stop string or, kept, with it, or with the token that ended the turn. */
function answerOf({ text, finish, stopReason }: WholeTurn, keepsStop: boolean): string {
  const isAtStop = typeof stopReason === 'string' && text.endsWith(stopReason);
  if (!keepsStop) return isAtStop ? text.slice(0, -stopReason.length) : text;
  return isAtStop || finish === 'length' ? text : `${text}<|im_end|>`;
}

/** The fields of the last request that should not be as they are. */
function differences(bodies: readonly Body[], { expect: { sent: { has = [], lacks = [] } = {} } }: Play): string[] {
  const last = bodies.at(-1)!;
  return [...has.filter((name) => !(name in last)), ...lacks.filter((name) => name in last)];
}

/** A pattern for objects that have at least these fields, at every depth. */
function deep(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, pattern(part)]));
}

function pattern(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pattern);
  return typeof value === 'object' && value !== null ? expect.objectContaining(deep(value as Readonly<Record<string, unknown>>)) : value;
}
