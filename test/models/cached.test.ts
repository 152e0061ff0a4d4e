import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { CancelledError, ConfigError, PolicyError, TimeoutError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import type { Model, ModelRequest } from '../../src/core/model.ts';
import { openRoleModels, type RoleBinding } from '../../src/models/role-models.ts';

const forever = new AbortController().signal;
const says = (content: string): readonly Message[] => [{ role: 'user', content }];
const ask = async (model: Model, content: string, more: Partial<ModelRequest> = {}) =>
  (await model.generate(says(content), { maxTokens: 8, signal: forever, ...more })).text;

/** Answers with the question and the number of the call. */
function counting(): { readonly model: Model; readonly calls: () => number } {
  let calls = 0;
  return { model: scriptedModel({ replies: (messages) => `${messages[0]!.content as string} ${calls++}` }), calls: () => calls };
}

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vf-roles-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** cache-process.ts as a process whose files can grow to so many blocks of 1024 bytes. */
function limitedProcess(blocks: number, ...args: readonly string[]) {
  const script = join(import.meta.dirname, 'cache-process.ts');
  const command = ['-c', `ulimit -f ${blocks}; exec "$@"`, 'bash', process.execPath, '--conditions=vf-search-source', script, ...args];
  const child = spawn('bash', command, { stdio: ['pipe', 'pipe', 'inherit'] });
  return { child, exited: once(child, 'exit') };
}

const bound = (model: Model, path: string | null, more: Partial<RoleBinding> = {}) =>
  openRoleModels({ judge: { model, cache: { identity: 'judge', path }, ...more } });

describe('cached', () => {
  test('an equal request is sent once, and recorded without an attempt the second time', async () => {
    const { model, calls } = counting();
    await using roles = await bound(model, null);
    const { models, asked } = roles.forRollout('1/0');
    expect([await ask(models['judge']!, 'a'), await ask(models['judge']!, 'a', { data: 1 })]).toEqual(['a 0', 'a 0']);
    expect(calls()).toBe(1);
    expect(asked.map(({ attempts, text }) => [attempts, text])).toEqual([
      [1, 'a 0'],
      [0, 'a 0'],
    ]);
    // Tokens are counted only where they were paid for.
    expect(roles.stats.get('judge')).toMatchObject({ calls: 2, cacheHits: 1, requests: 1, tokens: { input: 1, output: 2 } });
  });

  test.each<[string, Partial<ModelRequest>]>([
    ['other stops', { stop: ['.'] }],
    ['another length', { maxTokens: 9 }],
    ['another schema', { responseSchema: { type: 'object' } }],
    ['another top_p', { sampling: { topP: 0.5 } }],
    ['further fields', { sampling: { extra: { top_k: 2 } } }],
  ])('a request with %s is another request', async (_, more) => {
    const { model, calls } = counting();
    await using roles = await bound(model, null);
    await ask(roles.models['judge']!, 'a');
    await ask(roles.models['judge']!, 'a', more);
    expect(calls()).toBe(2);
  });

  test('the order of keys does not make another request', async () => {
    const { model, calls } = counting();
    await using roles = await bound(model, null);
    await ask(roles.models['judge']!, 'a', { sampling: { extra: { x: 1, y: 2 } } });
    await ask(roles.models['judge']!, 'a', { sampling: { extra: { y: 2, x: 1 } } });
    expect(calls()).toBe(1);
  });

  test('a request that draws at random is never answered from the cache', async () => {
    const { model, calls } = counting();
    await using roles = await bound(model, null);
    for (const sampling of [{ temperature: 1 }, { extra: { temperature: 1 } }])
      for (let i = 0; i < 2; i++) await ask(roles.models['judge']!, 'a', { sampling });
    expect(calls()).toBe(4);
  });

  test('equal requests at once share one, and a caller that leaves does not end it', async () => {
    const gate = Promise.withResolvers<void>();
    let calls = 0;
    const model = scriptedModel({
      replies: async () => {
        calls += 1;
        await gate.promise;
        return 'yes';
      },
    });
    await using roles = await bound(model, null);
    const leaving = new AbortController();
    const first = ask(roles.models['judge']!, 'a', { signal: leaving.signal });
    const others = [ask(roles.models['judge']!, 'a'), ask(roles.models['judge']!, 'a')];
    leaving.abort(new TimeoutError('The rollout took too long'));
    await expect(first).rejects.toThrow(CancelledError);
    gate.resolve();
    expect(await Promise.all(others)).toEqual(['yes', 'yes']);
    expect(calls).toBe(1);
  });

  test('a shared call is counted with the first caller that gets its reply, where the one that began it has left', async () => {
    const gate = Promise.withResolvers<void>();
    const model = scriptedModel({
      replies: async () => {
        await gate.promise;
        return 'yes';
      },
    });
    await using roles = await bound(model, null);
    const leaving = new AbortController();
    const [one, other] = [roles.forRollout('1/0'), roles.forRollout('1/1')];
    const first = ask(roles.models['judge']!, 'a', { signal: leaving.signal });
    const calls = [ask(one.models['judge']!, 'a'), ask(other.models['judge']!, 'a')];
    leaving.abort(new TimeoutError('The rollout took too long'));
    await expect(first).rejects.toThrow(CancelledError);
    gate.resolve();
    await Promise.all(calls);
    expect([one, other].map(({ asked }) => asked.map(({ attempts }) => attempts))).toEqual([[1], [0]]);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 2, cacheHits: 1, requests: 1, tokens: { input: 1, output: 1 } });
  });

  test('a failure is not kept', async () => {
    let calls = 0;
    const model = scriptedModel({
      replies: () => {
        if (calls++ === 0) throw new Error('no');
        return 'yes';
      },
    });
    await using roles = await bound(model, null);
    await expect(ask(roles.models['judge']!, 'a')).rejects.toThrow(/failed: no/);
    expect(await ask(roles.models['judge']!, 'a')).toBe('yes');
  });

  test('what the cache answers costs nothing of the budget', async () => {
    const { model } = counting();
    await using roles = await bound(model, null, { budget: { calls: 1 } });
    for (let i = 0; i < 3; i++) expect(await ask(roles.models['judge']!, 'a')).toBe('a 0');
    await expect(ask(roles.models['judge']!, 'b')).rejects.toThrow(
      'Role judge has spent its budget of 1 call. Raise roles.judge.budget_calls, or remove it for no limit.',
    );
  });
});

describe('budgeted', () => {
  test('no call is sent once the tokens are spent', async () => {
    const { model, calls } = counting();
    // A question of one word and a reply of two: three tokens a call.
    await using roles = await openRoleModels({ judge: { model, budget: { tokens: 4 } } });
    await ask(roles.models['judge']!, 'a');
    await ask(roles.models['judge']!, 'b');
    await expect(ask(roles.models['judge']!, 'c')).rejects.toMatchObject({ name: 'ModelError', role: 'judge', reason: 'budget', retryable: false });
    expect(calls()).toBe(2);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 2, failures: 1 });
  });

  test('calls that wait for a slot spend nothing beyond the budget', async () => {
    const { model, calls } = counting();
    await using roles = await openRoleModels({ judge: { model, maxConcurrent: 1, budget: { tokens: 4 } } });
    const asked = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => ask(roles.models['judge']!, `a${i}`)));
    expect(calls()).toBe(2);
    expect(asked.filter(({ status }) => status === 'rejected')).toHaveLength(18);
  });

  test('a call that is given up while it waits for a slot does not count', async () => {
    const gate = Promise.withResolvers<void>();
    const model = scriptedModel({ replies: () => gate.promise.then(() => 'yes') });
    await using roles = await openRoleModels({ judge: { model, maxConcurrent: 1, budget: { calls: 2 } } });
    const leaving = new AbortController();
    const first = ask(roles.models['judge']!, 'a');
    const left = ask(roles.models['judge']!, 'b', { signal: leaving.signal });
    leaving.abort();
    await expect(left).rejects.toThrow(CancelledError);
    gate.resolve();
    expect([await first, await ask(roles.models['judge']!, 'c')]).toEqual(['yes', 'yes']);
    await expect(ask(roles.models['judge']!, 'd')).rejects.toMatchObject({ reason: 'budget' });
  });

  test('a call with its retries is one call', async () => {
    let sent = 0;
    const model = scriptedModel({
      replies: () => {
        if (++sent === 1) throw new PolicyError('Overloaded', { retryable: true });
        return 'yes';
      },
    });
    await using roles = await openRoleModels({ judge: { model, baseDelayMs: 1, budget: { calls: 2 } } });
    for (const text of ['a', 'b']) expect(await ask(roles.models['judge']!, text)).toBe('yes');
    await expect(ask(roles.models['judge']!, 'c')).rejects.toMatchObject({ reason: 'budget' });
    expect(sent).toBe(3);
  });
});

describe('ReplyFile', () => {
  test('a reply that the caller cannot use is not kept, in memory or on file', async () => {
    const path = join(folder, 'replies.jsonl');
    const isUsable = ({ text }: { readonly text: string }) => text === 'a 1';
    const { model, calls } = counting();
    {
      await using roles = await bound(model, path);
      for (const text of ['a 0', 'a 1', 'a 1']) expect(await ask(roles.models['judge']!, 'a', { isUsable })).toBe(text);
    }
    await using roles = await bound(model, path);
    expect(await ask(roles.models['judge']!, 'a', { isUsable })).toBe('a 1');
    expect(calls()).toBe(2);
  });

  test('a reply on file that the caller cannot use is asked for again, and the new one counts', async () => {
    const path = join(folder, 'replies.jsonl');
    const { model, calls } = counting();
    for (const [text, more] of [
      ['a 0', {}],
      ['a 1', { isUsable: () => calls() > 1 }],
      ['a 1', {}],
    ] as const) {
      await using roles = await bound(model, path);
      expect(await ask(roles.models['judge']!, 'a', more)).toBe(text);
    }
  });

  test('secrets that a server repeats are not on file', async () => {
    const path = join(folder, 'replies.jsonl');
    const { model } = counting();
    const redact = (text: string) => text.replace('sk-123', '***');
    await using roles = await openRoleModels({ judge: { model, cache: { identity: 'judge', path } } }, { redact });
    expect(await ask(roles.models['judge']!, 'sk-123')).toBe('sk-123 0');
    expect(await readFile(path, 'utf8')).toMatch(/"text":"\*\*\* 0"/);
  });

  test('replies outlive the run, and another identity has its own', async () => {
    const path = join(folder, 'deep', 'replies.jsonl');
    const [first, second] = [counting(), counting()];
    {
      await using roles = await bound(first.model, path);
      await ask(roles.models['judge']!, 'a\u2028b');
    }
    await using roles = await bound(second.model, path);
    expect(await ask(roles.models['judge']!, 'a\u2028b')).toBe('a\u2028b 0');
    expect(second.calls()).toBe(0);
    await using others = await bound(second.model, path, { cache: { identity: 'another', path } });
    await ask(others.models['judge']!, 'a\u2028b');
    expect(second.calls()).toBe(1);
  });

  test('roles that name one file share it', async () => {
    const path = join(folder, 'replies.jsonl');
    const { model, calls } = counting();
    const binding = { model, cache: { identity: 'same', path } };
    await using roles = await openRoleModels({ judge: binding, critic: binding });
    await ask(roles.models['judge']!, 'a');
    await ask(roles.models['critic']!, 'b');
    await roles.close();
    expect(calls()).toBe(2);
    expect((await readFile(path, 'utf8')).trim().split('\n')).toHaveLength(2);
  });

  test('a line that was torn, and lines that are not replies, are skipped, and new lines follow them', async () => {
    const path = join(folder, 'replies.jsonl');
    const first = counting();
    {
      await using roles = await bound(first.model, path);
      await ask(roles.models['judge']!, 'a');
    }
    await appendFile(path, '{"key":"x"}\nnull\n{"key":"torn');
    const second = counting();
    {
      await using roles = await bound(second.model, path);
      expect(await ask(roles.models['judge']!, 'a')).toBe('a 0');
      await ask(roles.models['judge']!, 'b');
    }
    const third = counting();
    await using roles = await bound(third.model, path);
    expect([await ask(roles.models['judge']!, 'a'), await ask(roles.models['judge']!, 'b')]).toEqual(['a 0', 'b 0']);
    expect(third.calls()).toBe(0);
  });

  test('a reply is on file before any caller sees it: kill -9 loses none that was answered', async () => {
    const path = join(folder, 'replies.jsonl');
    const script = join(import.meta.dirname, 'cache-process.ts');
    const child = spawn(process.execPath, ['--conditions=vf-search-source', script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    let printed = '';
    for await (const chunk of child.stdout) {
      printed += String(chunk);
      if (printed.split('\n').length > 20) break;
    }
    child.kill('SIGKILL');
    await exited;
    const answered = printed.split('\n').slice(0, -1);
    const { model, calls } = counting();
    await using roles = await bound(model, path);
    for (const question of answered) expect(await ask(roles.models['judge']!, question)).toBe(`reply to ${question}`);
    expect(answered.length).toBeGreaterThan(9);
    expect(calls()).toBe(0);
  });

  test('an impossible path is refused at once', async () => {
    await expect(bound(counting().model, '/proc/nowhere/replies.jsonl')).rejects.toThrow(ConfigError);
    await expect(bound(counting().model, '/dev/full')).rejects.toThrow(/it is not a regular file/);
    await expect(bound(counting().model, folder)).rejects.toThrow(/cannot be opened: it is not a regular file/);
  });

  // Skipped on Windows, which has no `ulimit`: nothing else there limits the size of a file.
  test.skipIf(process.platform === 'win32')('a file that can grow no more ends the writing, not the run, and is reported once', async () => {
    const path = join(folder, 'replies.jsonl');
    const { child, exited } = limitedProcess(1, path);
    let printed = '';
    for await (const chunk of child.stdout) {
      printed += String(chunk);
      if (printed.split('\n').length > 100) break;
    }
    child.kill('SIGKILL');
    await exited;
    const notices = printed.split('\n').filter((line) => line.startsWith('notice'));
    expect(notices).toEqual([expect.stringContaining(`Replies are no longer cached in ${path}: `)]);
    const { model, calls } = counting();
    await using roles = await bound(model, path);
    expect(await ask(roles.models['judge']!, 'question 0')).toBe('reply to question 0');
    expect(calls()).toBe(0);
  });

  // Skipped on Windows, which has no `ulimit`.
  test.skipIf(process.platform === 'win32')('a file that can grow no more keeps what another process has written to it', async () => {
    const path = join(folder, 'replies.jsonl');
    const { child, exited } = limitedProcess(2, path, 'pause');
    let printed = '';
    for await (const chunk of child.stdout) {
      if (printed === '') {
        await using roles = await bound(counting().model, path);
        for (const question of ['a', 'b']) await ask(roles.models['judge']!, question);
        child.stdin.write('go on\n');
      }
      printed += String(chunk);
      if (printed.includes('notice')) break;
    }
    child.kill('SIGKILL');
    await exited;
    const answered = printed.slice(0, printed.indexOf('notice')).trim().split('\n');
    expect(answered.length).toBeGreaterThan(5);
    const { model, calls } = counting();
    await using roles = await bound(model, path);
    for (const question of ['a', 'b', ...answered]) await ask(roles.models['judge']!, question);
    expect(calls()).toBe(0);
  });
});
