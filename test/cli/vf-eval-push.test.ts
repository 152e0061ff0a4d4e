/** vf-eval --push: a run becomes a data set with a card on a hub, and what cannot be pushed is known before the first rollout. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseYaml } from 'yaml';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { READER, type WritableHub, writableHub, WRITER } from '../data/writable-hub.ts';
import { chatServer } from '../models/chat-server.ts';
import { EvalFolder } from './vf-eval-process.ts';

let hub: WritableHub;
let folder: EvalFolder;
beforeEach(async () => {
  hub = await writableHub();
  folder = new EvalFolder();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

const vfEval = (words: readonly string[], token = WRITER) => folder.run(words, { HF_ENDPOINT: hub.url, HF_TOKEN: token });
const pushed = (key: string, file: string) => hub.repositories.get(key)!.files.get(file)!.toString('utf8');

function frontMatter(card: string): Record<string, unknown> {
  return parseYaml(/^---\n([^]*?)\n---\n/.exec(card)![1]!) as Record<string, unknown>;
}

describe('vf-eval --push', () => {
  it('uploads results, tokens and metadata with a card, as a new and private data set', async () => {
    const { code, stderr } = await vfEval(['capitals', '-n', '3', '-r', '2', '--push', 'me/capital_runs']);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain(`vf-eval: pushed to ${hub.url}/datasets/me/capital_runs (new and private; its settings make it public)\n`);
    const { files, isPrivate, titles } = hub.repositories.get('datasets/me/capital_runs')!;
    expect([isPrivate, titles]).toEqual([true, [expect.stringMatching(/^Add capitals of extractive-baseline \(vf-search /)]]);
    expect([...files.keys()].toSorted()).toEqual(['.gitattributes', 'README.md', 'metadata.json', 'results.jsonl', 'tokens.jsonl']);
    expect(pushed('datasets/me/capital_runs', 'results.jsonl').trim().split('\n')).toHaveLength(6);
    const card = pushed('datasets/me/capital_runs', 'README.md');
    expect(frontMatter(card)).toEqual({
      tags: ['vf-search', 'evaluation', 'capitals'],
      configs: [
        { config_name: 'results', default: true, data_files: 'results.jsonl' },
        { config_name: 'tokens', data_files: 'tokens.jsonl' },
      ],
    });
    expect(card).toMatch(/^\| reward \| \d\.\d{3} \| .* \| 6 \|$/m);
    expect(card).toMatch(/^\| pass@2 \| /m);
    expect(card).toContain('Note: capitals is a toy.');
    expect(card).toContain('In a checkout of vf-search:\n\n```sh\nnpx vf-eval capitals -n 3 -r 2\n');
  });

  it('shows neither keys nor addresses of servers', async () => {
    await using server = await chatServer(() => 'Paris <answer>');
    const url = `${server.url}/v1`;
    const words = [
      'capitals',
      '-n',
      '1',
      '-b',
      url,
      '-m',
      'm',
      '-k',
      'MY_KEY',
      '--api-client-type',
      'chat',
      '-a',
      `{"format": "chat", "service_token": "tok-of-service-1", "service_url": "http://10.1.2.3:8000/retrieve"}`,
    ];
    const { code, stderr, stdout } = await folder.run([...words, '--push', 'lab/x'], {
      HF_ENDPOINT: hub.url,
      HF_TOKEN: WRITER,
      MY_KEY: 'sk-of-server-12',
    });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const everything = [...hub.repositories.get('datasets/lab/x')!.files.values()].join('\n');
    for (const secret of ['sk-of-server-12', 'tok-of-service-1', WRITER]) expect(`${everything}${stdout}${stderr}`).not.toContain(secret);
    const [card, metadata] = ['README.md', 'metadata.json'].map((file) => pushed('datasets/lab/x', file));
    for (const text of [card, metadata]) for (const address of [server.url, '10.1.2.3']) expect(text).not.toContain(address);
    expect(card).toContain('\nnpx vf-eval capitals -n 1 -b URL -m m ');
    for (const text of folder.files().values()) expect(text).not.toContain(WRITER);
  });

  it('a run that was saved before is pushed by -R, without a rollout', async () => {
    await vfEval(['capitals', '-n', '2']);
    const before = folder.results();
    const { code } = await vfEval(['capitals', '-n', '2', '-R', '--push', 'me/later']);
    expect(code).toBe(0);
    expect(folder.results()).toEqual(before);
    expect(pushed('datasets/me/later', 'results.jsonl').trim().split('\n')).toHaveLength(2);
  });

  it('a hub that fails at the end leaves the run as it is, and the command that pushes it again is printed and works', async () => {
    hub.add('datasets/me/runs', {});
    hub.availableFor = 1;
    const { code, stdout, stderr } = await vfEval(['capitals', '-n', '2', '--push', 'me/runs']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^rollouts +2 finished, 0 failed/m);
    expect(stderr).toMatch(/^vf-eval: Could not push to me\/runs at .*: .*busy.*then push again\.$/m);
    hub.availableFor = Infinity;
    const [, words] = /this pushes them again: node .*vf-eval\.js (.*)$/m.exec(stderr)!;
    expect((await vfEval(words!.split(' '))).code).toBe(0);
    expect(pushed('datasets/me/runs', 'results.jsonl').trim().split('\n')).toHaveLength(2);
  });

  it('a hub whose port is closed before the run is one line, and nothing is played', async () => {
    await hub[Symbol.asyncDispose]();
    const { code, stdout, stderr } = await vfEval(['capitals', '-n', '2', '--push', 'me/runs']);
    expect({ code, stdout, lines: stderr.trim().split('\n').length }).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(stderr).toMatch(/^vf-eval: Could not push to me\/runs at http:\/\/127\.0\.0\.1:\d+: .*Check the network and HF_ENDPOINT/);
    expect(folder.results()).toEqual([]);
  });

  it('a hub whose port is closed during the run costs nothing but the push, which the printed command repeats', async () => {
    await using other = await writableHub();
    await using server = await chatServer(async () => {
      await hub[Symbol.asyncDispose]();
      return 'Paris <answer>';
    });
    const words = ['capitals', '-n', '1', '-b', `${server.url}/v1`, '-m', 'm', '--api-client-type', 'chat', '-a', '{"format":"chat"}'];
    const { code, stdout, stderr } = await vfEval([...words, '--push', 'me/runs']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^rollouts +1 finished, 0 failed/m) });
    expect(stderr).toMatch(/^vf-eval: Could not push to me\/runs at \S+: .*then push again\.$/m);
    const [, again] = /the results are saved; this pushes them again: node .*vf-eval\.js (.*)$/m.exec(stderr)!;
    const resumed = await folder.run(again!.replaceAll("'", '').split(' '), { HF_ENDPOINT: other.url, HF_TOKEN: WRITER });
    expect({ code: resumed.code, stderr: resumed.stderr }).toMatchObject({ code: 0 });
    expect([...other.repositories.keys()]).toEqual(['datasets/me/runs']);
  });

  it.each([
    ['a token that can only read', ['--push', 'me/x'], READER, /The token for .* can only read/],
    ['no token', ['--push', 'me/x'], '', /Pushing to me\/x needs a token with write access/],
    ['what is not a repository', ['--push', 'x'], WRITER, /--push must be OWNER\/NAME/],
  ])('%s ends the run before the first rollout, in one line', async (_, words, token, message) => {
    const { code, stdout, stderr } = await vfEval(['capitals', ...words], token);
    expect({ code, stdout, lines: stderr.trim().split('\n').length }).toEqual({ code: 2, stdout: '', lines: 1 });
    expect(stderr).toMatch(message);
    expect(folder.results()).toEqual([]);
  });

  it('two runs of a file with one target are refused, because the second would replace the first', async () => {
    writeFileSync(
      join(folder.path, 'runs.toml'),
      'push = "me/x"\nnum_examples = 1\n[[eval]]\nenv_id = "capitals"\n[[eval]]\nenv_id = "capitals"\nseed = 1\n',
    );
    const { code, stderr } = await vfEval(['runs.toml']);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('Two runs push to me/x') });
  });
});
