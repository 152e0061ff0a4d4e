import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HubPush, parseRepositoryName } from '../../src/data/hub-push.ts';
import { loopback } from '../transport/loopback.ts';
import { READER, type WritableHub, writableHub, WRITER } from './writable-hub.ts';

let hub: WritableHub;
let folder: string;
beforeEach(async () => {
  hub = await writableHub();
  folder = await mkdtemp(join(tmpdir(), 'vf-push-'));
});
afterEach(async () => {
  await hub[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const pushTo = (name: string, env: Record<string, string> = { HF_TOKEN: WRITER }) =>
  new HubPush({ type: 'dataset', name }, { env: { HF_ENDPOINT: hub.url, HF_HOME: folder, ...env }, retryDelayMs: 1 });
const small = { path: 'README.md', content: { text: '# Ünïcode' } };

async function large(): Promise<{ path: string; content: { file: string } }> {
  const file = join(folder, 'results.jsonl');
  await writeFile(file, 'x'.repeat(100_000));
  return { path: 'results.jsonl', content: { file } };
}

describe('HubPush', () => {
  it('creates a private repository, and puts small and large files into one commit', async () => {
    expect(await pushTo('me/runs').upload([small, await large()], 'Add a run')).toEqual({ url: `${hub.url}/datasets/me/runs`, isNew: true });
    const repository = hub.repositories.get('datasets/me/runs')!;
    expect([repository.isPrivate, repository.titles]).toEqual([true, ['Add a run']]);
    expect(repository.files.get('README.md')!.toString('utf8')).toBe('# Ünïcode');
    expect(repository.files.get('results.jsonl')!.length).toBe(100_000);
  });

  it('replaces files of an existing repository, whose others and whose visibility stay', async () => {
    hub.add('datasets/me/runs', { 'README.md': 'old', 'notes.txt': 'mine' });
    expect(await pushTo('me/runs').upload([small], 'Again')).toMatchObject({ isNew: false });
    const { files, isPrivate } = hub.repositories.get('datasets/me/runs')!;
    expect([isPrivate, files.get('README.md')!.toString('utf8'), files.get('notes.txt')!.toString('utf8')]).toEqual([false, '# Ünïcode', 'mine']);
  });

  it('goes on after a hub that is busy and an upload that breaks off', async () => {
    hub.unavailable = 1;
    hub.brokenUploads = 1;
    await pushTo('me/runs').upload([small, await large()], 'Add a run');
    expect(hub.repositories.get('datasets/me/runs')!.files.size).toBe(3);
  });

  it('names the server to which a hub redirects, which gets no token, and one that is no hub', async () => {
    const asked: (string | undefined)[] = [];
    await using other = await loopback((request, response) => {
      asked.push(request.headers.authorization);
      response.end('{"object": "list"}');
    });
    await using redirecting = await loopback((request, response) => {
      response.writeHead(307, { location: `${other.url}${request.url}` }).end();
    });
    const refused = (url: string) => pushTo('me/runs', { HF_TOKEN: WRITER, HF_ENDPOINT: url }).assertAllowed();
    await expect(refused(redirecting.url)).rejects.toThrow(
      `The hub ${redirecting.url} redirects to ${other.url}, so nothing was pushed. Set HF_ENDPOINT to the address of the hub itself.`,
    );
    expect(asked).toEqual([undefined]);
    await expect(refused(other.url)).rejects.toThrow(`${other.url} does not answer as a hub does. Check HF_ENDPOINT.`);
  });

  it('takes the token from the file in which the tools of the hub keep it', async () => {
    await writeFile(join(folder, 'token'), `${WRITER}\n`);
    await expect(pushTo('lab/runs', {}).assertAllowed()).resolves.toBeUndefined();
    await writeFile(join(folder, 'elsewhere'), WRITER);
    await rm(join(folder, 'token'));
    await expect(pushTo('me/runs', { HF_TOKEN_PATH: join(folder, 'elsewhere') }).assertAllowed()).resolves.toBeUndefined();
  });

  it.each([
    ['without a token', 'me/runs', {}, /needs a token with write access: .*set HF_TOKEN/],
    ['with a token that can only read', 'me/runs', { HF_TOKEN: READER }, /can only read/],
    ['with a token that the hub does not know', 'me/runs', { HF_TOKEN: 'hf_unknown' }, /\(401\): the token is invalid or may not write to me/],
    [
      'to an organisation that it may only read',
      'library/runs',
      { HF_TOKEN: WRITER },
      /me may only read the repositories of library\..*push to me\/runs/,
    ],
    ['to a stranger', 'stranger/runs', { HF_TOKEN: WRITER }, /belongs to me, who cannot push to stranger\. Push to me\/runs/],
  ])('refuses a push %s before anything is created, and never says the token', async (_, name, env, message) => {
    const error = await pushTo(name, env as Record<string, string>)
      .assertAllowed()
      .then(
        () => null,
        (thrown: Error) => thrown,
      );
    expect(error?.message).toMatch(message);
    expect(error?.message).not.toMatch(/hf_\w/);
    expect(hub.repositories.size).toBe(0);
  });
});

describe('HubPush with a fine-grained token', () => {
  it('is allowed if one of its scopes may write the owner or the repository, and refused before anything is created otherwise', async () => {
    const scope = (type: string, name: string, ...permissions: string[]) => ({ entity: { type, name }, permissions });
    const allows = async (...scoped: object[]) => {
      hub.token = { role: 'fineGrained', fineGrained: { scoped } };
      return pushTo('lab/runs')
        .assertAllowed()
        .then(
          () => true,
          (error: Error) => error.message,
        );
    };
    expect(await allows(scope('user', 'me', 'repo.write'), scope('org', 'Lab', 'repo.content.read', 'repo.write'))).toBe(true);
    expect(await allows(scope('dataset', 'lab/runs', 'repo.write'))).toBe(true);
    expect(await allows(scope('user', 'me', 'repo.write'), scope('org', 'lab', 'repo.content.read'))).toMatch(
      /fine-grained and has no write access to the repositories of lab/,
    );
  });
});

describe('parseRepositoryName', () => {
  it.each(['me/runs', 'My-Lab/run.2026_a'])('takes %s', (name) => {
    expect(parseRepositoryName(name)).toBe(name);
  });

  it.each(['runs', 'a/b/c', '../runs', 'me/..', 'me/', '/runs', 'me/a b', 'me/x--y', 'me/-x', 'me/x.git', 'https://huggingface.co/me/runs', ''])(
    'refuses %j',
    (name) => {
      expect(parseRepositoryName(name)).toBeNull();
    },
  );
});
