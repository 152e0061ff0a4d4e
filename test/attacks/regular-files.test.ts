/** Pipes, devices and endless files wherever a command opens a path; and no other way to open one. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, fstatSync, globSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hubToken } from '../../src/data/hub-connection.ts';
import { copyRun } from '../../src/evaluate/copy-run.ts';
import { readSmallFileSync } from '../../src/files/small-file.ts';
import { importEnvironment } from '../../src/registry/import-environment.ts';
import { loadEnvironmentFile } from '../../src/sessions/environment/environment-file.ts';
import { writeOutput } from '../../src/cli/write-output.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { until } from '../transport/loopback.ts';
import { writeEvaluation } from '../viewing/written-runs.ts';
import { startNode } from './attacked-process.ts';

const ROOT = join(import.meta.dirname, '../..');

/** These read what the package itself ships, and /proc. */
const OWN_READERS = [
  'environments/self-play-code/rename-identifiers/plan-renames.ts',
  'environments/self-play-code/rename-identifiers/rename-identifiers.ts',
  'environments/self-play-code/source.ts',
  'src/data/bundled-models.ts',
  'src/data/bundled.ts',
  'src/data/package-root.ts',
  'src/engine/kernels/load-kernels.ts',
  'src/execution/process/job-watch.ts',
  'src/execution/python-sources.ts',
  'src/files/process-start.ts',
  'src/files/regular-file.ts',
  'src/files/user-text.ts',
  'src/files/process-group.ts',
  'src/reports/plot/rasterize.ts',
  // A word of a file that it writes.
  'src/templates/agent-template.ts',
  'src/server/view/read-page.ts',
  'src/sessions/engine/address-notice.ts',
];

function pipeIn(folder: TemporaryFolder, name: string): string {
  const path = join(folder.path, name);
  spawnSync('mkfifo', [path]);
  return path;
}

describe('a path that is a pipe or a device', () => {
  it('is refused as a module, as a token file and in a run that is copied', async () => {
    using folder = new TemporaryFolder();
    await expect(importEnvironment(pipeIn(folder, 'rubric.ts'), { isOwn: false })).rejects.toThrow(/rubric\.ts is a pipe; name a regular file/);
    expect(() => hubToken({ HF_TOKEN_PATH: pipeIn(folder, 'token') })).toThrow(/token is a pipe/);
    const run = writeEvaluation(join(folder.path, 'run'), [{ group: 'a' }]);
    spawnSync('mkfifo', [join(run, 'asked.jsonl')]);
    mkdirSync(join(folder.path, 'copy'));
    await expect(copyRun(run, join(folder.path, 'copy'))).rejects.toThrow(/asked\.jsonl is a pipe/);
    const pictures = writeEvaluation(join(folder.path, 'pictures'), [{ group: 'a' }]);
    mkdirSync(join(pictures, 'images'));
    spawnSync('mkfifo', [join(pictures, 'images/x.png')]);
    await expect(copyRun(pictures, join(folder.path, 'copy'))).rejects.toThrow(/x\.png is a pipe/);
  });
});

describe('./.env', () => {
  it('may be a pipe that a password manager serves', async () => {
    using folder = new TemporaryFolder();
    const path = pipeIn(folder, '.env');
    const writer = spawn('sh', ['-c', `printf 'VF_SERVED=1\\n' > '${path}'`]);
    const variables: NodeJS.ProcessEnv = {};
    expect(loadEnvironmentFile(path, variables)).toEqual(['VF_SERVED']);
    await once(writer, 'close');
  });

  it('ends a command at the first signal while it waits for the writer of a pipe', async () => {
    using folder = new TemporaryFolder();
    const script = `
      process.on('SIGTERM', () => process.exit(1));
      const { loadEnvironmentFile } = await import(${JSON.stringify(join(ROOT, 'src/sessions/environment/environment-file.ts'))});
      process.stdout.write('waits\\n');
      loadEnvironmentFile(${JSON.stringify(pipeIn(folder, '.env'))}, {});`;
    await using waiting = startNode(['--input-type=module', '-e', script]);
    await until(() => waiting.stdout !== '' || waiting.child.exitCode !== null);
    // The wait begins after the line.
    const again = setInterval(() => waiting.child.kill('SIGTERM'), 20);
    expect(await waiting.ended).toEqual([null, 'SIGTERM']);
    clearInterval(again);
  });

  it('is given up as a pipe without a writer, and refused as a device and as a file without end', () => {
    using folder = new TemporaryFolder();
    expect(() => readSmallFileSync(pipeIn(folder, 'pipe'), { mostBytes: 10, pipeMs: 30 })).toThrow(
      /is a pipe, and nothing was written to it within 0\.03 s/,
    );
    symlinkSync('/dev/zero', join(folder.path, 'zero'));
    expect(() => loadEnvironmentFile(join(folder.path, 'zero'), {})).toThrow(/is a device/);
    writeFileSync(join(folder.path, 'long'), Buffer.alloc(2 ** 20 + 1, 'x'));
    expect(() => loadEnvironmentFile(join(folder.path, 'long'), {})).toThrow(/is longer than 1,048,576 bytes/);
  });
});

describe('writeOutput', () => {
  const write = (path: string) => writeOutput(path, (put) => put('lines\n'));

  it('refuses what it would write into without an end or a reader at once: pipes, sockets, devices and links to them', async () => {
    using folder = new TemporaryFolder();
    const link = (name: string, to: string) => (symlinkSync(to, join(folder.path, name)), join(folder.path, name));
    const socket = createServer().listen(join(folder.path, 'socket'));
    await once(socket, 'listening');
    const pipe = pipeIn(folder, 'pipe');
    for (const [path, kind] of [
      [pipe, 'a pipe'],
      [link('to-pipe', pipe), 'a pipe'],
      [join(folder.path, 'socket'), 'a socket'],
      ['/dev/full', 'a device'],
      [link('to-device', '/dev/zero'), 'a device'],
      [folder.path, 'a directory'],
    ] as const)
      await expect(write(path)).rejects.toThrow(`${path} (-o) is ${kind}; name a file, or - for stdout`);
    socket.close();
  });

  it('refuses a pipe that is read, too, and leaves it', async () => {
    using folder = new TemporaryFolder();
    const path = pipeIn(folder, 'read');
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    await expect(write(path)).rejects.toThrow(/is a pipe/);
    expect(fstatSync(reader).isFIFO()).toBe(true);
    closeSync(reader);
  });

  it('writes to /dev/null, and into the streams of the process where they are named', async () => {
    await write('/dev/null');
    const url = new URL('../../src/cli/write-output.ts', import.meta.url).href;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [
        '--conditions=vf-search-source',
        '--input-type=module',
        '--eval',
        `import { writeOutput } from '${url}'; for (const to of ['-', '/dev/stdout', '/dev/stderr']) await writeOutput(to, (put) => put(to + '\\n'));`,
      ],
      { encoding: 'utf8' },
    );
    expect([stdout, stderr]).toEqual(['-\n/dev/stdout\n', '/dev/stderr\n']);
  });
});

describe('src and environments', () => {
  it('open paths from outside by src/files/regular-file.ts alone', () => {
    const files = globSync(['src/**/*.ts', 'environments/**/*.ts'], { cwd: ROOT }).filter((path) => !path.includes('/assembly/'));
    expect(files.length).toBeGreaterThan(500);
    expect(directReaders(files)).toEqual([...OWN_READERS, ...DIRECTORIES].toSorted());
  });
});

describe('scripts', () => {
  it('that take words of the user open what these name by src/files/regular-file.ts alone', () => {
    const files = globSync(['scripts/**/*.{ts,mjs}', 'test/parity/vectors.ts', 'test/parity/check-directories.ts'], { cwd: ROOT });
    const taking = files.filter((path) => /process\.argv|parseArgs|\boutput\b|directory: string/.test(readFileSync(join(ROOT, path), 'utf8')));
    expect(taking.length).toBeGreaterThan(40);
    expect(directReaders(taking)).toEqual(SCRIPT_READERS);
  });
});

function directReaders(files: readonly string[]): string[] {
  const found = files.filter((path) => {
    const source = readFileSync(join(ROOT, path), 'utf8');
    const imported = [...source.matchAll(/import \{([^}]*)\} from 'node:fs(?:\/promises)?'/g)].flatMap(([, names]) =>
      names!.split(',').map((name) => name.trim()),
    );
    return imported.some((name) => /^(?:readFile|readFileSync|createReadStream)$/.test(name)) || /[^.\w]open(?:Sync)?\([^()]*, 'r'\)/.test(source);
  });
  return found.map((path) => path.replaceAll('\\', '/')).toSorted();
}

/** These read files of the repository, /proc, and what they have just written themselves. */
const SCRIPT_READERS = [
  'scripts/bench/agent-turns.ts',
  'scripts/bench/bm25-corpus.ts',
  'scripts/bench/bm25-run.mjs',
  'scripts/bench/bm25.ts',
  'scripts/bench/dense.ts',
  'scripts/bench/embedded-memory.ts',
  'scripts/bench/environment-soak.ts',
  'scripts/bench/gateway-process.ts',
  'scripts/bench/kept-rollouts.ts',
  'scripts/bench/metrics.ts',
  'scripts/bench/pipelines.ts',
  'scripts/bench/policy-loss.ts',
  'scripts/bench/publish.ts',
  'scripts/bench/trainer-overhead.ts',
  'scripts/bench/two-turn-task.ts',
  'scripts/bench/view.ts',
  'scripts/build-kernels.mjs',
  'scripts/interop/test.ts',
  'scripts/proof/visual-sees.ts',
  'scripts/release.mjs',
];

/** Opens a directory to sync it. */
const DIRECTORIES = ['src/files/json-lines.ts'];
