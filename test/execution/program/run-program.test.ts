import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import {
  findCommand,
  neededFolders,
  openProgramFolder,
  type ProgramEnd,
  type ProgramOptions,
  type ProgramSandbox,
  runProgram,
  sandboxHasProc,
} from '../../../src/execution/index.ts';
import { loopback } from '../../transport/loopback.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { whyMissing } from '../missing-executor.ts';

const PYTHON = '/usr/bin/python3';
const PATH = '/usr/bin:/bin';

async function run(code: string, options: Partial<ProgramOptions> = {}): Promise<ProgramEnd> {
  await using folder = await openProgramFolder();
  return await runProgram({ command: [PYTHON, '-c', code], folder, env: { PATH }, signal: new AbortController().signal, ...options });
}

/** Ids of processes whose command line has the word. */
function running(word: string): string[] {
  const lineOf = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    } catch {
      return '';
    }
  };
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid && lineOf(pid).includes(word));
}

/** A child that leaves the group and the terminal, with its own standard streams. */
const STRAY = (word: string) => `
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '${word}'], start_new_session=True)`;

// What most of them do is wait for a process.
describe.concurrent('runProgram', () => {
  it('gives a program its input and its variables, and nothing else of ours', async () => {
    process.env['VF_TEST_SECRET'] = 'hunter2';
    const { stdout, code, excess } = await run(
      'import os, sys, json; print(json.dumps([sys.stdin.read(), os.getcwd() == os.environ["HOME"], sorted(os.environ)]))',
      { input: '{"question": "é"}', env: { PATH, MINE: '1' } },
    );
    delete process.env['VF_TEST_SECRET'];
    const [input, isHome, names] = JSON.parse(stdout) as [string, boolean, string[]];
    expect({ input, isHome, code, excess }).toEqual({ input: '{"question": "é"}', isHome: true, code: 0, excess: null });
    // The shell that starts it and Python add their own.
    expect(names.filter((name) => !/^(PWD|OLDPWD|SHLVL|_|LC_CTYPE)$/.test(name))).toEqual(['HOME', 'MINE', 'PATH', 'TMPDIR', 'VF_PROGRAM']);
  });

  it('tells an exit code from a signal, with the end of stderr', async () => {
    expect(await run('import sys; print("x" * 5000 + "the end", file=sys.stderr); sys.exit(3)')).toMatchObject({
      code: 3,
      signal: null,
      stderr: expect.stringMatching(/^x{3992}the end\n$/) as string,
    });
    expect(await run('import os; os.kill(os.getpid(), 11)')).toMatchObject({ code: null, signal: 'SIGSEGV', excess: null });
  });

  it('ends a program that runs for too long, also one that ignores SIGTERM, and one that prints too much', async () => {
    const ignores = 'import signal, time; signal.signal(15, signal.SIG_IGN); print("up", flush=True); time.sleep(600)';
    expect(await run(ignores, { seconds: 0.3, graceMs: 100 })).toMatchObject({
      signal: 'SIGKILL',
      excess: { reason: 'deadline', detail: 'It ran for longer than 0.3 s.' },
    });
    const flood = 'import sys\nwhile True: sys.stderr.write("x" * 10000)';
    expect(await run(flood, { outputBytes: 100_000 })).toMatchObject({ excess: { reason: 'output', detail: 'It printed more than 100,000 bytes.' } });
    expect(await run('print("x" * 100)', { outputBytes: 100 })).toMatchObject({ excess: { reason: 'output' } });
  });

  it.skipIf(!existsSync('/proc/self/environ'))('leaves none of its processes, also where they left its group', async () => {
    const word = crypto.randomUUID();
    expect(await run(`${STRAY(word)}\nprint(1)`)).toMatchObject({ code: 0, stdout: '1\n' });
    expect(running(word)).toEqual([]);
    expect(await run(`${STRAY(word)}\nimport time\ntime.sleep(600)`, { seconds: 0.3 })).toMatchObject({ excess: { reason: 'deadline' } });
    expect(running(word)).toEqual([]);
  });

  it('takes a deadline that is longer than a timer can be as none', async () => {
    const end = await run('import time\ntime.sleep(0.05)\nprint("done")', { seconds: 3e9, graceMs: Infinity });
    expect(end).toMatchObject({ code: 0, excess: null, stdout: 'done\n' });
  });

  it('ends with the signal of its caller, whose reason it throws', async ({ expect: own }) => {
    const stop = new AbortController();
    const word = crypto.randomUUID();
    const ended = run(`${STRAY(word)}\nimport time\ntime.sleep(600)`, { signal: stop.signal });
    await own.poll(() => running(word).length, { timeout: 20_000 }).toBeGreaterThan(0);
    stop.abort(new ConfigError('enough'));
    await expect(ended).rejects.toThrow('enough');
    expect(running(word)).toEqual([]);
  });

  it.skipIf(!existsSync('/proc/self/environ'))(
    'ends when our process is killed, with all that left its group',
    { tags: 'long' },
    async ({ expect: own }) => {
      const word = crypto.randomUUID();
      const module = JSON.stringify(join(import.meta.dirname, '../../../src/execution/index.ts'));
      const code = JSON.stringify(`${STRAY(word)}\nimport time\ntime.sleep(600)`);
      const script = `
      const { openProgramFolder, runProgram } = await import(${module});
      await runProgram({ command: ['${PYTHON}', '-c', ${code}], folder: await openProgramFolder(), env: { PATH: '${PATH}' }, signal: new AbortController().signal });`;
      const ours = spawn(process.execPath, ['--conditions=vf-search-source', '--input-type=module', '-e', script], { stdio: 'ignore' });
      await own.poll(() => running(word).length, { timeout: 20_000 }).toBeGreaterThan(1);
      ours.kill('SIGKILL');
      await own.poll(() => running(word), { timeout: 20_000 }).toEqual([]);
      expect(running(word)).toEqual([]);
    },
  );

  it('removes its folder', async () => {
    const folder = await openProgramFolder();
    await runProgram({ command: [PYTHON, '-c', 'open("a", "w")'], folder, env: { PATH }, signal: new AbortController().signal });
    expect(existsSync(join(folder.home, 'a'))).toBe(true);
    await folder[Symbol.asyncDispose]();
    expect(existsSync(folder.home)).toBe(false);
  });
});

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)(`a program in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, { concurrent: true }, () => {
  const SERVER = { server: 'http://127.0.0.1:59999' };
  const cage = (shown: readonly string[], network: ProgramSandbox['network'] = SERVER) => ({ sandbox: { shown, network } });
  const attempt = (code: string) => `
try:
  ${code}
  print('DONE')
except Exception as error: print(type(error).__name__)`;

  it('reads /usr and its own files, writes to its folder only, and sees no key file', async () => {
    using folder = new TemporaryFolder();
    mkdirSync(join(folder.path, 'agent'));
    const script = join(folder.path, 'agent/agent.py');
    writeFileSync(join(folder.path, 'agent/.env'), 'KEY=secret');
    writeFileSync(join(folder.path, 'agent/.envrc'), 'KEY=secret');
    writeFileSync(join(folder.path, 'other'), 'x');
    const tries = [
      `open('own', 'w').write('1')`,
      `open('${folder.path}/other')`,
      `open('${script}', 'a')`,
      `open('/etc/passwd')`,
      `open('/usr/x', 'w')`,
    ];
    writeFileSync(
      script,
      `${tries.map(attempt).join('\n')}\nprint(repr(open('${folder.path}/agent/.env').read() + open('${folder.path}/agent/.envrc').read()))`,
    );
    const command = [PYTHON, script];
    const { stdout, stderr } = await run('', { command, ...cage(neededFolders(command)) });
    expect({ lines: stdout.trim().split('\n'), stderr }).toEqual({
      lines: ['DONE', 'FileNotFoundError', 'OSError', 'FileNotFoundError', 'OSError', "''"],
      stderr: '',
    });
  });

  it('reaches the server and no other', async () => {
    await using server = await loopback((_, response) => response.end('policy'));
    await using other = await loopback((_, response) => response.end('other'));
    const ask = (url: string) => attempt(`print(urllib.request.urlopen('${url}', timeout=5).read().decode())`);
    const code = `import urllib.request\n${[server.url, other.url].map(ask).join('\n')}`;
    expect(await run(code, cage([], { server: server.url }))).toMatchObject({ stdout: 'policy\nDONE\nURLError\n', stderr: '', code: 0 });
    expect(await run(code, cage([], 'all'))).toMatchObject({ stdout: 'policy\nDONE\nother\nDONE\n', code: 0 });
    expect(await run(code, cage([], 'none'))).toMatchObject({ stdout: 'URLError\nURLError\n', code: 0 });
  });

  it('ends with its exit code, its signal, and all of its processes', async () => {
    expect(await run('import sys; sys.exit(7)', cage([]))).toMatchObject({ code: 7 });
    expect(await run('import os; os.kill(os.getpid(), 9)', cage([], 'none'))).toMatchObject({ code: 137 });
    const word = crypto.randomUUID();
    expect(await run(`${STRAY(word)}\nimport time\ntime.sleep(600)`, { seconds: 1, ...cage([]) })).toMatchObject({ excess: { reason: 'deadline' } });
    expect(running(word)).toEqual([]);
  });

  it.skipIf(!sandboxHasProc())('sees its own processes in /proc, and writes no setting of the kernel, also as root', async () => {
    const settings = ['sys/kernel/core_pattern', 'sys/vm/swappiness', 'self/oom_score_adj'];
    const names = `print(sorted({open(f'/proc/{pid}/comm').read().strip() for pid in os.listdir('/proc') if pid.isdigit()}))`;
    const shell = `subprocess.run(['bash', '-c', 'cat <(echo one)'])`;
    const code = `import os, subprocess\n${names}\n${settings.map((path) => attempt(`open('/proc/${path}', 'a').close()`)).join('\n')}\n${shell}`;
    expect(await run(code, cage([], 'none'))).toMatchObject({ stdout: "one\n['bwrap', 'python3']\nOSError\nOSError\nOSError\n", stderr: '' });
  });

  it('ends when its processes hold too much', async () => {
    const code = 'held = bytearray(300 * 2**20)\nfor at in range(0, len(held), 4096): held[at] = 1\nimport time\ntime.sleep(600)';
    expect(await run(code, { memoryBytes: 2 ** 28, ...cage([]) })).toMatchObject({ excess: { reason: 'memory' } });
  });
});

describe('findCommand', () => {
  it('names the program and the files of its arguments by absolute paths, and leaves other words', () => {
    using folder = new TemporaryFolder();
    for (const name of ['agent.py', '1']) writeFileSync(join(folder.path, name), '');
    mkdirSync(join(folder.path, 'src'));
    const found = findCommand(['python3', 'agent.py', 'src', './src', '-x', '{question}', '2'], { path: PATH, folder: folder.path });
    expect(found).toEqual([PYTHON, join(folder.path, 'agent.py'), 'src', join(folder.path, 'src'), '-x', '{question}', '2']);
  });

  it('refuses a script that an interpreter would not find in any run, and names the file that was meant', () => {
    using folder = new TemporaryFolder();
    writeFileSync(join(folder.path, 'http_agent.py'), '');
    const find = (...words: string[]) => findCommand(words, { path: PATH, folder: folder.path });
    expect(() => find('python3', '-u', 'htp_agent.py')).toThrow(
      `The script htp_agent.py is not in ${folder.path} (did you mean http_agent.py?). Correct its name`,
    );
    expect(() => find('sh', './gone/agent.sh')).toThrow(/The script \.\/gone\/agent\.sh is not in .*\/gone\. Correct its name/);
    expect(find('python3', '-m', 'agent', 'out.py').at(-1)).toBe('out.py');
    expect(findCommand(['python3', 'written.py'], { path: PATH, folder: folder.path, hasScript: false }).at(-1)).toBe('written.py');
  });

  it('refuses a program that is not there or cannot be run, and says what to do', () => {
    using folder = new TemporaryFolder();
    writeFileSync(join(folder.path, 'agent.py'), '');
    writeFileSync(join(folder.path, 'script'), '#!/no/such/python\n', { mode: 0o755 });
    spawnSync('mkfifo', [join(folder.path, 'pipe')]);
    for (const [name, problem] of [
      ['no-such-program', /No program "no-such-program" is in a folder of PATH/],
      ['./absent', /absent does not exist/],
      ['./agent.py', /is not executable\. Put its interpreter before it, as in \["python3", "agent\.py"\]/],
      ['./script', /needs \/no\/such\/python, which does not exist/],
      ['./pipe', /is not a program/],
      ['.', /No program "\."|is not a program/],
      ['', /No program ""/],
    ] as const)
      expect(() => findCommand([name], { path: PATH, folder: folder.path })).toThrow(problem);
  });
});
