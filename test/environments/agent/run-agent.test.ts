import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseArguments } from '../../../environments/agent/arguments.ts';
import { toRow } from '../../../environments/agent/rows.ts';
import { type ProgramState, runAgent } from '../../../environments/agent/run-agent.ts';
import { AgentError } from '../../../src/core/agent-error.ts';
import { RewardError } from '../../../src/core/errors.ts';
import { findCommand } from '../../../src/execution/index.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';
import { whyMissing } from '../../execution/missing-executor.ts';
import { loopback, readText, sendJson } from '../../transport/loopback.ts';
import { PYTHON_CLIENT } from './python-client.ts';

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const PATH = '/usr/bin:/bin';
const row = toRow({
  id: '1',
  question: 'Capital of "France"?',
  golden_answers: ['Paris'],
  data_source: 'x',
  index: 0,
  split: 'test',
  note: ['n'],
  answer: 'Paris',
});

interface Options {
  readonly args?: Readonly<Record<string, unknown>>;
  readonly words?: readonly string[];
  readonly baseURL?: string;
  readonly env?: Readonly<Record<string, string>>;
}

let scripts = 0;
/** Writes a Python script and runs it as an agent. */
async function play(code: string, { args = {}, words = [], baseURL = 'http://127.0.0.1:1/v1', env = {} }: Options = {}): Promise<ProgramState> {
  const script = join(folder.path, `agent-${++scripts}.py`);
  writeFileSync(script, code);
  const { reward, ...parsed } = parseArguments({ command: ['python3', script, ...words], ...args });
  return await runAgent({
    args: parsed,
    row,
    env: { PATH, ...env },
    signal: new AbortController().signal,
    command: findCommand(parsed.command, { path: PATH }),
    rewardCommand: reward.kind === 'command' ? findCommand(reward.command, { path: PATH }) : null,
    policy: { name: 'policy', baseURL, apiKey: 'key-of-the-session' },
  });
}

const ASKS = `${PYTHON_CLIENT}
print(complete([{'role': 'user', 'content': json.load(sys.stdin)['question']}]))`;

async function policy() {
  const asked: unknown[] = [];
  const server = await loopback(async (request, response) => {
    asked.push({ path: request.url, key: request.headers.authorization, body: JSON.parse(await readText(request)) as unknown });
    sendJson(response, 200, { choices: [{ message: { role: 'assistant', content: 'Paris' } }] });
  });
  return { asked, server };
}

// What most of them do is wait for a process.
describe.concurrent('runAgent', () => {
  it('gives the program the row without its answers, and the address of the policy', async () => {
    const { asked, server } = await policy();
    await using _ = server;
    expect(await play(ASKS, { baseURL: `${server.url}/s/1/v1` })).toMatchObject({ answer: 'Paris', command_reward: null });
    const messages = [{ role: 'user', content: 'Capital of "France"?' }];
    expect(asked).toEqual([{ path: '/s/1/v1/chat/completions', key: 'Bearer key-of-the-session', body: { model: 'policy', messages } }]);
    const told = await play(
      `import json, os, sys; print(json.dumps([json.load(sys.stdin), {k: os.environ.get(k) for k in ['ANTHROPIC_BASE_URL', 'MINE', 'OTHER', 'LANG']}]))`,
      {
        args: { env: ['MINE'] },
        env: { MINE: 'm', OTHER: 'o', OPENAI_API_KEY: 'mine' },
      },
    );
    expect(JSON.parse(told.answer)).toEqual([
      { id: '1', question: 'Capital of "France"?', note: ['n'] },
      { ANTHROPIC_BASE_URL: 'http://127.0.0.1:1', MINE: 'm', OTHER: null, LANG: 'C.UTF-8' },
    ]);
  });

  it('fills fields of the row into words of the command, which no shell reads, and leaves stdin empty', async () => {
    const state = await play('import json, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))', {
      words: ['{question}; $(id)', '{note}', '{}'],
    });
    expect(JSON.parse(state.answer)).toEqual([['Capital of "France"?; $(id)', '["n"]', '{}'], '']);
  });

  it.each([
    [
      'exit_code',
      'import sys; print("trace", file=sys.stderr); sys.exit("\\033[31mno module openai; key-of-the-session\\033[0m\\n\\033[0m")',
      {},
      /exit code 1\. The last line of its stderr: no module openai; \[hidden\]$/,
    ],
    [
      'exit_code',
      'import sys; sys.exit("agent.mjs:3\\nthrow new TypeError(1)\\n^\\n\\nTypeError: no tools\\n    at agent.mjs:3:7 {\\n  code: 1\\n}\\n\\nNode.js v24.21.0")',
      {},
      /exit code 1\. It threw: TypeError: no tools$/,
    ],
    ['signal', 'import os; os.kill(os.getpid(), 11)', {}, /was killed by SIGSEGV\.$/],
    ['no_answer', 'print(" ")', {}, /gave no answer\. It printed nothing on stdout\.$/],
    ['no_answer', 'print("Paris")', { answer: { file: 'answer.txt' } }, /It wrote no file answer\.txt\.$/],
    ['deadline', 'print("Paris", flush=True); import time; time.sleep(600)', { seconds: 0.4 }, /was ended\. It ran for longer than 0\.4 s\.$/],
    ['output', 'while True: print("Paris")', { output_kb: 8 }, /It printed more than 8,192 bytes\.$/],
    ['memory', 'held = b"x" * 2**28; print("Paris", flush=True); import time; time.sleep(600)', { memory_mb: 64 }, /held more than 67,108,864 bytes/],
  ] as const)('fails with the reason %s', async (reason, code, args, message) => {
    const error = await play(code, { args }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AgentError);
    expect(error).toMatchObject({ reason, message: expect.stringMatching(message) as string, endsRun: false });
  });

  it('has the end of stderr as the cause', async () => {
    const error = await play('raise RuntimeError("broken")').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ message: expect.stringMatching(/RuntimeError: broken$/) as string });
    expect(String((error as Error).cause)).toMatch(/the end of its stderr:\nTraceback[^]*agent-\d+\.py", line 1[^]*RuntimeError: broken$/);
  });

  it('hides a secret of its variables in stderr, also where the end that is kept begins within it', async () => {
    const secret = 'sk-0123456789-abcdefghij';
    const fails = 'import os, sys; s = os.environ["TOKEN"]; sys.stderr.write(f"{s} {s}" + "x" * 3985 + s[:4]); sys.exit(3)';
    const error = (await play(fails, { args: { env: ['TOKEN'] }, env: { TOKEN: secret } }).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toBeInstanceOf(AgentError);
    expect(error.message).toMatch(/stderr: \[hidden\]x{200}/);
    expect(error.message + String(error.cause)).not.toContain('abcdefghij');
  });

  it('ends the run if the program cannot be started', async () => {
    const { reward: _, ...args } = parseArguments({ command: ['x'] });
    const started = runAgent({
      args,
      row,
      env: {},
      signal: new AbortController().signal,
      rewardCommand: null,
      command: [join(folder.path, 'gone')],
      policy: { name: 'p', baseURL: 'http://127.0.0.1:1/v1', apiKey: 'k' },
    });
    await expect(started).rejects.toMatchObject({
      name: 'ExecutionError',
      endsRun: true,
      message: expect.stringMatching(/gone does not exist/) as string,
    });
  });

  describe('a command that scores', () => {
    const score = async (code: string) => {
      const script = join(folder.path, `score-${++scripts}.py`);
      writeFileSync(script, code);
      return (await play('open("left.txt", "w").write("work"); print("Paris")', { args: { reward: { command: ['python3', script] } } }))
        .command_reward;
    };

    it('gets the row with its answers, the answer and what the agent left', async () => {
      expect(
        await score(
          'import json, sys; got = json.load(sys.stdin); print(len(open("left.txt").read()) + (got["answer"] in got["row"]["golden_answers"]))',
        ),
      ).toBe(5);
    });

    it('scores by a number or by its exit code', async () => {
      expect(await score('print("tests ran"); print("-0.25")')).toBe(-0.25);
      expect(await score('print("all tests passed")')).toBe(1);
      expect(await score('import sys; sys.exit(1)')).toBe(0);
      expect(await score('assert open("left.txt").read() == "done"')).toBe(0);
      expect(await score('import sys; print("1 failed"); print("warning", file=sys.stderr); sys.exit(1)')).toBe(0);
    });

    it('has a home of its own, in which the agent left no code for its interpreter', async () => {
      expect(await play(LEAVES_CODE, scoredIn('none'))).toMatchObject({ command_reward: 0.25 });
    });

    it('that breaks is a failure and no reward of 0', async () => {
      for (const code of ['import no_such_module', 'print("loading"); import no_such_module', 'import sys; sys.exit(2)', 'import os; os.abort()']) {
        const error = await score(code).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(RewardError);
      }
      await expect(score('import no_such_module')).rejects.toThrow(
        /ended with exit code 1\. The last line of its stderr: ModuleNotFoundError: No module/,
      );
    });

    it('scores by an assertion in Node too, whose version comes last', async () => {
      const node = (thrown: string) => score(`import sys; sys.exit("a.mjs:1\\n^\\n\\n${thrown}\\n    at a.mjs:1:1\\n\\nNode.js v24.21.0")`);
      expect(await node('AssertionError [ERR_ASSERTION]: 1 == 2')).toBe(0);
      await expect(node('[TypeError: fetch failed] {')).rejects.toThrow(/exit code 1\. It threw: TypeError: fetch failed$/);
    });

    it.each(['nan', '-inf', 'False', 'None', '0%', '0,5', 'score: 0', 'reward = 0.5'])(
      'that prints %s last gives no reward, and is told so',
      async (printed) => {
        await expect(score(`print("${printed}")`)).rejects.toThrow(
          `The reward's command printed "${printed}" last. Print a number such as 0.5 alone`,
        );
      },
    );
  });
});

/** Python loads this from the user's home before any script. */
const LEAVES_CODE = `import os, site
os.makedirs(site.getusersitepackages())
code = "import os; print(1.0, flush=True); os._exit(0)"
open(os.path.join(site.getusersitepackages(), "usercustomize.py"), "w").write(code)
open("left.txt", "w").write("25")
print("Paris")`;

function scoredIn(sandbox: 'none' | 'bubblewrap') {
  const script = join(folder.path, `score-${++scripts}.py`);
  writeFileSync(script, 'print(int(open("left.txt").read()) / 100)');
  return { args: { sandbox, reward: { command: ['python3', script] } } };
}

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)(`runAgent in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, () => {
  it('reaches the policy, and leaves a file as its answer', async () => {
    const { asked, server } = await policy();
    await using _ = server;
    const code = ASKS.replace('print(', "open('answer.txt', 'w').write(");
    const args = { sandbox: 'bubblewrap', answer: { file: 'answer.txt' } };
    expect(await play(code, { args, baseURL: `${server.url}/v1` })).toMatchObject({ answer: 'Paris' });
    expect(asked).toHaveLength(1);
  });

  it('says that the sandbox hides a program that a script asks for', async () => {
    const failed = play('import sys; print("shim: pyenv: not found", file=sys.stderr); sys.exit(127)', {
      args: { sandbox: 'bubblewrap' },
      baseURL: 'http://127.0.0.1:8000/v1',
    });
    await expect(failed).rejects.toThrow(
      'exit code 127. The sandbox hides what is neither in /usr nor in a folder of "show". The last line of its stderr: shim',
    );
  });

  it('leaves no code for the interpreter of the command that scores', async () => {
    expect(await play(LEAVES_CODE, { ...scoredIn('bubblewrap'), baseURL: 'http://127.0.0.1:8000/v1' })).toMatchObject({ command_reward: 0.25 });
  });
});
