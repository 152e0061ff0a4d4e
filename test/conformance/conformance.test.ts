/** Recorded replies of servers, each played by policy, role and pipeline: all three must read them alike, and ask as the server demands. */
import { describe, expect, test } from 'vitest';
import type { VfError } from '../../src/core/errors.ts';
import { playAsPipeline, playAsPolicy, playAsRole, RETRIES } from './players.ts';
import type { Body } from './recorded-server.ts';
import { type ExpectedFailure, type ExpectedTurn, type Play, readRecordings } from './recording.ts';

const recordings = readRecordings();

describe.each(recordings.map((recording) => [`${recording.server}, ${recording.model}`, recording.plays] as const))('%s', (_, plays) => {
  describe.each(plays.map((play) => [play.name, play] as const))('%s', (__, play) => {
    const { turns = [], failure, sent = {}, requests } = play.expect;

    test('policy', async () => {
      const { rollout, bodies } = await playAsPolicy(play);
      checkRequests(bodies, play);
      if (requests !== undefined) expect(bodies.length).toBe(requests);
      if (failure !== undefined) return checkRollout(rollout, bodies, failure);
      expect(rollout.error).toBeNull();
      const own = rollout.segments.filter(({ kind }) => kind === 'model');
      const seen = own.map((segment, i) => {
        const { finish, stopReason, stopIsGuess, stopWasIgnored } = rollout.generations[i]!;
        const calls = segment.messages?.flatMap(({ toolCalls = [] }) => toolCalls) ?? [];
        return {
          text: calls.length === 0 ? segment.text : segment.messages![0]!.content,
          reasoning: segment.reasoning,
          finish,
          stopReason,
          isGuess: stopIsGuess ?? false,
          wasIgnored: stopWasIgnored ?? false,
          calls: calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) as unknown })),
        };
      });
      expect(seen).toEqual(turns.map(whole));
      if (sent.assistant === undefined) return;
      const turn = bodies.at(-1)!.messages.findLast(({ role }) => role === 'assistant');
      expect(turn).toMatchObject(sent.assistant);
    });

    test('role', async () => {
      const outcome = await playAsRole(play);
      checkRequests(outcome.bodies, play);
      if (failure !== undefined) return checkError(outcome, failure);
      if ('error' in outcome) throw outcome.error;
      const { text, reasoning, finish } = whole(spoken(play));
      expect(outcome.value).toEqual({ text, reasoning, finish });
    });

    test.each([false, true])('pipeline, with stop strings kept: %s', async (keepsStop) => {
      const outcome = await playAsPipeline(play, { keepsStop });
      checkRequests(outcome.bodies, play);
      if (failure !== undefined) return checkError(outcome, failure);
      if ('error' in outcome) throw outcome.error;
      expect(outcome.value).toBe(answerOf(whole(spoken(play)), keepsStop));
    });
  });
});

test('every recording names its sources and is played', () => {
  expect(recordings.length).toBeGreaterThanOrEqual(20);
  for (const { server, sources, plays } of recordings) {
    expect(plays.length, server).toBeGreaterThan(0);
    expect(sources.length, server).toBeGreaterThan(0);
    for (const source of sources) expect(URL.parse(source)?.protocol, source).toBe('https:');
    for (const {
      name,
      expect: { turns = [], failure },
    } of plays)
      expect(turns.length > 0, name).toBe(failure === undefined);
  }
});

function whole(turn: ExpectedTurn) {
  const { text, reasoning, finish = 'stop', stopReason = null, isGuess = false, wasIgnored = false, calls = [] } = turn;
  return { text, reasoning, finish, stopReason, isGuess, wasIgnored, calls: [...calls] };
}

/** The turn that a request without tools gets. */
function spoken({ tools, expect: { turns = [] } }: Play): ExpectedTurn {
  return tools === undefined ? turns[0]! : turns.at(-1)!;
}

/** What a pipeline's file gets: the text without its stop string or, kept, with it, or with the token that ended the turn. */
function answerOf({ text, finish, stopReason }: ReturnType<typeof whole>, keepsStop: boolean): string {
  const isAtStop = typeof stopReason === 'string' && text.endsWith(stopReason);
  if (!keepsStop) return isAtStop ? text.slice(0, -stopReason.length) : text;
  return isAtStop || finish === 'length' ? text : `${text}<|im_end|>`;
}

function checkRequests(bodies: readonly Body[], { expect: { sent: { has = [], lacks = [] } = {} } }: Play): void {
  const last = bodies.at(-1)!;
  for (const name of has) expect(last).toHaveProperty(name);
  for (const name of lacks) expect(last).not.toHaveProperty(name);
}

function checkRollout(
  { error, stop, reward }: Awaited<ReturnType<typeof playAsPolicy>>['rollout'],
  bodies: readonly Body[],
  { kind, message }: ExpectedFailure,
): void {
  if (kind === 'tooLong') {
    expect([error, stop]).toEqual([null, 'prompt_too_long']);
    return;
  }
  expect(reward).toBeNull();
  expect(error?.message).toMatch(new RegExp(message));
  expect([error?.type, error?.retryable, error?.endsRun ?? false]).toEqual(['PolicyError', kind === 'retryable', kind === 'endsRun']);
  if (kind === 'retryable') expect(bodies.length).toBe(RETRIES + 1);
}

function checkError(outcome: { readonly error: VfError } | { readonly value: unknown }, { kind, message }: ExpectedFailure): void {
  if (!('error' in outcome)) throw new Error(`There is an answer instead of a failure: ${JSON.stringify(outcome.value)}`);
  expect(outcome.error.message).toMatch(new RegExp(message));
  expect([outcome.error.retryable, outcome.error.endsRun]).toEqual([kind === 'retryable', kind === 'endsRun']);
}
