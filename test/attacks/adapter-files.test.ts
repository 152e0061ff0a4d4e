/** Files of adapters and models that are not regular files, lead elsewhere or never end. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeAdapter } from '../trainer/publisher/adapter-files.ts';
import { type AttackedServer, peakGrowth, startServer } from './attacked-process.ts';
import { CommandHost } from '../cli/command-host.ts';
import { ask } from './http-attacks.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
const NANO = join(import.meta.dirname, '../models/nano-base');
const BOUND_BYTES = 200 * 2 ** 20;

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-adapters-'));
const allowed = join(folder, 'allowed');
const outside = join(folder, 'outside');
/** Loads from anywhere, as a loopback server does by default. */
let open: AttackedServer;
/** Loads only from under `allowed`. */
let confined: AttackedServer;
beforeAll(async () => {
  writeAdapter(outside, { b: 0.05 });
  [open, confined] = await Promise.all([
    startServer(['policy', '--threads', '1']),
    startServer(['policy', '--threads', '1', '--allow-adapters-under', allowed]),
  ]);
});
afterAll(async () => {
  await Promise.all([open, confined].map((server) => server[Symbol.asyncDispose]()));
  rmSync(folder, { recursive: true });
});

let made = 0;
/** A good adapter under `allowed` with one file replaced by what `put` makes at its path. */
function adapterWith(file: string, put: (path: string) => void): string {
  const directory = join(allowed, `adapter-${++made}`);
  writeAdapter(directory, { b: 0.05 });
  rmSync(join(directory, file));
  put(join(directory, file));
  return directory;
}

const pipe = (path: string) => void spawnSync('mkfifo', [path]);

async function load(server: AttackedServer, directory: string): Promise<{ status: number; message: string }> {
  const target = { server: () => server, path: '/v1/load_lora_adapter', good: {}, refusals: { notJson: 400, wrongType: 400 } };
  const { status, body } = await ask(target, JSON.stringify({ lora_name: `a${++made}`, lora_path: directory }));
  return { status, message: status === 200 ? '' : (JSON.parse(body) as { error: { message: string } }).error.message };
}

async function expectWell(server: AttackedServer): Promise<void> {
  const good = join(allowed, `good-${++made}`);
  writeAdapter(good, { b: 0.05 });
  expect(await load(server, good)).toEqual({ status: 200, message: '' });
}

describe('POST /v1/load_lora_adapter under attack', () => {
  it.each([CONFIG, WEIGHTS])('refuses a pipe in place of %s instead of waiting for it', async (file) => {
    for (const server of [open, confined])
      expect(await load(server, adapterWith(file, pipe))).toMatchObject({ status: 400, message: expect.stringContaining('is a pipe;') as string });
    await expectWell(open);
  });

  it.each([CONFIG, WEIGHTS])('refuses a device or a socket in place of %s', async (file) => {
    const grown = await peakGrowth(open, async () => {
      for (const device of ['/dev/zero', '/dev/urandom', '/dev/null'])
        expect(
          await load(
            open,
            adapterWith(file, (path) => symlinkSync(device, path)),
          ),
        ).toMatchObject({ status: 400, message: expect.stringContaining('is a device;') as string });
    });
    expect(grown).toBeLessThan(BOUND_BYTES);
    const listener = createServer();
    const withSocket = adapterWith(file, (path) => listener.listen(path));
    await once(listener, 'listening');
    expect(await load(open, withSocket)).toMatchObject({ status: 400, message: expect.stringContaining('is a socket;') as string });
    listener.close();
    await expectWell(open);
  });

  it('reads no more of a configuration than one has, whatever size the file says it has', async () => {
    const huge = adapterWith(CONFIG, (path) => {
      writeFileSync(path, '{');
      truncateSync(path, 2 ** 33);
    });
    const grown = await peakGrowth(open, async () => {
      expect(await load(open, huge)).toMatchObject({ status: 400, message: expect.stringContaining('bytes, the limit is 1,048,576;') as string });
      // Files of /proc claim to have no bytes, and have some.
      expect(
        await load(
          open,
          adapterWith(CONFIG, (path) => symlinkSync('/proc/self/smaps', path)),
        ),
      ).toMatchObject({ status: 400 });
    });
    expect(grown).toBeLessThan(BOUND_BYTES);
    await expectWell(open);
  });

  it.each(['target_modules', 'exclude_modules'])('lets the tensors decide where the pattern of %s may try without end', async (field) => {
    const directory = join(allowed, `adapter-${++made}`);
    writeAdapter(directory, { b: 0.05, config: { [field]: String.raw`(?:(?:[\w.])+)+!` } });
    expect(await load(open, directory)).toEqual({ status: 200, message: '' });
    await expectWell(open);
  });

  it.each([CONFIG, WEIGHTS])('refuses %s where it leads out of the allowed folder, and reveals nothing of what is there', async (file) => {
    const attacks = {
      'a link to another adapter': adapterWith(file, (path) => symlinkSync(join(outside, file), path)),
      'a link that climbs': adapterWith(file, (path) => symlinkSync(join('..', '..', 'outside', file), path)),
      'a link to nothing': adapterWith(file, (path) => symlinkSync(join(folder, 'nowhere', file), path)),
      'a link to a device': adapterWith(file, (path) => symlinkSync('/dev/zero', path)),
      'a link to itself': adapterWith(file, (path) => symlinkSync(path, path)),
      'a link to a folder': adapterWith(file, (path) => symlinkSync('/etc', path)),
    };
    const messages = new Set<string>();
    for (const [attack, directory] of Object.entries(attacks)) {
      const { status, message } = await load(confined, directory);
      expect({ attack, status }).toEqual({ attack, status: 403 });
      messages.add(message.replace(/lora a\d+ /, ''));
    }
    expect(messages.size).toBe(1);
    await expectWell(confined);
  });

  it('takes a file that is linked within the allowed folder', async () => {
    const shared = join(allowed, 'shared');
    writeAdapter(shared, { b: 0.05 });
    expect(
      await load(
        confined,
        adapterWith(WEIGHTS, (path) => symlinkSync(join(shared, WEIGHTS), path)),
      ),
    ).toEqual({ status: 200, message: '' });
  });
});

describe('vf-serve policy with a model under attack', () => {
  const host = new CommandHost();
  afterAll(() => host[Symbol.asyncDispose]());

  it.each(['config.json', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'generation_config.json', 'model.safetensors'])(
    'refuses a pipe in place of %s in one line (2)',
    async (file) => {
      const model = join(folder, `model-${++made}`);
      mkdirSync(model);
      cpSync(NANO, model, { recursive: true });
      rmSync(join(model, file), { force: true });
      pipe(join(model, file));
      const { code, stderr } = await host.run('vf-serve', ['policy', '--model', model, '--threads', '1', '--port', '0'], { cwd: folder, env: {} });
      expect(code).toBe(2);
      expect(stderr).toMatch(/^vf-serve: .* is a pipe; [^\n]*\n$/);
    },
  );
});
