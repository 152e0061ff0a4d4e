import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { run, WireClient } from '../server/verifiers/wire-client.ts';
import { refusingUrl, until } from '../transport/loopback.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { runInProcess } from './in-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const WORLD = ['-a', JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' })];
const started = new Set<ChildProcess>();
afterEach(() => {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
});

function vfServe(args: readonly string[], flags: readonly string[] = []) {
  const child = spawn(process.execPath, [...flags, join(ROOT, 'src/cli/vf-serve.ts'), 'verifiers', ...args], { cwd: ROOT, env: BARE_ENVIRONMENT });
  started.add(child);
  const result = { child, stdout: '', stderr: '', ended: once(child, 'close') };
  child.stdout.on('data', (chunk) => (result.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (result.stderr += String(chunk)));
  return result;
}

async function serving(args: readonly string[]) {
  const server = vfServe(['search-r1', ...WORLD, '--bind', 'tcp://127.0.0.1:0', ...args]);
  await Promise.race([until(() => server.stderr.includes('Ctrl-C stops')), server.ended]);
  return server;
}

/** As where a package is not installed. */
function without(name: string): readonly string[] {
  const hooks = `import { registerHooks } from 'node:module';
registerHooks({ resolve(specifier, context, next) {
  if (specifier !== ${JSON.stringify(name)}) return next(specifier, context);
  throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
} });`;
  return ['--import', `data:text/javascript,${encodeURIComponent(hooks)}`];
}

describe('vf-serve verifiers', () => {
  it('prints its address, plays a run, and ends at SIGINT (130)', async () => {
    const server = await serving(['--split', 'train']);
    expect(server.stdout).toMatch(/^tcp:\/\/127\.0\.0\.1:\d+\n$/);
    expect(server.stderr).toMatch(
      /^vf-serve: serving search-r1, [\d,]+ rows of fact-world.* \(train\), over the wire of verifiers 0\.4\.0; Ctrl-C stops\n$/,
    );
    await using client = new WireClient(server.stdout.trim());
    const base_url = `${await refusingUrl()}/v1`;
    const { reply, deltas } = await client.ask('run', run({ task_data: { idx: 0 }, client: { base_url } }));
    expect(reply).toMatchObject({ success: true, head: { env: { id: 'search-r1' }, ok: false } });
    expect(deltas[0]!.errors[0]!.message).toMatch(
      /^The policy server at .* \(client\.base_url\) cannot be reached: .*; start the server or correct the URL$/,
    );
    server.child.kill('SIGINT');
    expect(await server.ended).toEqual([130, null]);
  });

  it.each([
    [
      'an address that other machines reach',
      ['--bind', 'tcp://0.0.0.0:0'],
      /--bind tcp:\/\/0\.0\.0\.0:0 is open to the network, and this wire has no password\. Bind 127\.0\.0\.1, or add --allow-network/,
    ],
    ['what is not an address', ['--bind', '127.0.0.1'], /--bind "127\.0\.0\.1" is not an address\. Write tcp:\/\/HOST:PORT/],
    ['a tokenizer, which is the policy server’s', ['--tokenizer', 'nano-base'], /Unknown flag --tokenizer/],
  ])('refuses %s with one line (2)', async (_, args, message) => {
    const { code, stdout, stderr } = await runInProcess('vf-serve', ['verifiers', 'search-r1', ...WORLD, ...args], { cwd: ROOT, env: {} });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('says that the wire has no password where it is open to the network, and ends with its stdin where it was asked to (0)', async () => {
    const server = await serving(['--bind', 'tcp://0.0.0.0:0', '--allow-network', '--exit-with-stdin']);
    await until(() => server.stderr.includes('no password'));
    expect(server.stderr).toMatch(/this protocol has no password: anyone who reaches the port can start rollouts/);
    server.child.stdin.end();
    expect(await server.ended).toEqual([0, null]);
  });

  it.each(['zeromq', '@msgpack/msgpack'])('says in one line how to install %s where it is missing (2)', async (name) => {
    const server = vfServe(['search-r1', ...WORLD], without(name));
    expect(await server.ended).toEqual([2, null]);
    expect(server.stderr).toMatch(
      /^vf-serve: The wire of verifiers needs the packages .*\. Install them: npm install zeromq@6\.8\.0 @msgpack\/msgpack@3\.1\.3\n$/,
    );
  });
});
