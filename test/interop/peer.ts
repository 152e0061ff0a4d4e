/** A peer: a Python package, in its own environment, that is proved to work with this one. Finds its Python, runs scripts with it, reports what ran. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, inject, TestRunner } from 'vitest';
import type { ModelKind } from './served-models.ts';

/** The folders of scripts/interop. */
export type Peer =
  | 'trl'
  | 'openenv'
  | 'openenv-core'
  | 'verifiers'
  | 'verifiers-openenv'
  | 'verifiers-v0'
  | 'inspect'
  | 'verl'
  | 'verl-search'
  | 'clients'
  | 'datasets'
  | 'peft'
  | 'schemathesis'
  | 'tinker'
  | 'tinker-json'
  | 'skyrl';

export interface PeerOptions {
  /** Runs with `--quick` too. @default false */
  readonly quick?: boolean;
}

export interface RunOptions {
  /** Then the script and all that it started are killed, and the run fails. */
  readonly timeoutMs: number;
  /** Added to the variables of this process, without its settings of this package, of vitest and of Node, and without the network of Hugging Face. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where it runs. @default a folder that is gone afterwards */
  readonly cwd?: string;
}

export interface PeerResult {
  readonly peer: string;
  /** The version that ran, as the peer itself says. */
  readonly version: string;
  readonly what: string;
  readonly result: string;
}

declare module 'vitest' {
  interface TaskMeta {
    peerResults?: PeerResult[];
  }
}

const ROOT = join(import.meta.dirname, '../..');
const isQuick = process.env['VF_INTEROP_QUICK'] === '1';
const mustRun = process.env['VF_REQUIRE_INTEROP'] === '1';
/** The peers named on the command line; all where none is. */
const named = (process.env['VF_INTEROP_PEERS'] ?? '').split(',').filter((name) => name !== '');

/** The Python that `scripts/interop/install.sh <peer>` made from the requirements as they are now. Null where there is none. */
export function peerPython(peer: Peer): string | null {
  const folder = join(process.env['VF_INTEROP_DIR'] ?? join(homedir(), '.cache/vf-search/interop'), peer);
  const [python, stamp] = [join(folder, 'venv/bin/python'), join(folder, 'installed')];
  const isInstalled = existsSync(python) && existsSync(stamp) && readFileSync(stamp).equals(readFileSync(requirementsOf(peer)));
  return isInstalled ? python : null;
}

function requirementsOf(peer: Peer): string {
  return join(ROOT, 'scripts/interop', peer, 'requirements.txt');
}

/**
 * A suite that needs the peer. Skipped where the peer is not installed, which fails instead with VF_REQUIRE_INTEROP=1; and where the command line asks
 * for other peers or, with `--quick`, for quick suites only.
 */
export function describePeer(peer: Peer, { quick = false }: PeerOptions, suite: () => void): void {
  const isAskedFor = (quick || !isQuick) && (named.length === 0 || named.includes(peer));
  const isMissing = peerPython(peer) === null;
  const reason = isAskedFor ? ` (skipped: run scripts/interop/install.sh ${peer})` : ' (not asked for)';
  const isSkipped = !isAskedFor || (isMissing && !mustRun);
  describe.skipIf(isSkipped)(`${peer}${isSkipped ? reason : ''}`, () => {
    // Before each test, not before all: tests whose set-up failed count as failed, not as skipped.
    beforeEach(() => {
      if (isMissing) throw new Error(`${peer} is not installed, and VF_REQUIRE_INTEROP=1 requires it; run scripts/interop/install.sh ${peer}`);
    });
    suite();
  });
}

/**
 * Runs `test/interop/<peer>/<script>.py` and returns the last line of its stdout, read as JSON. Throws with the end of its output where it fails, exceeds
 * its time or ends with another line. Whatever it started in its process group is killed at the end.
 */
export async function runPeer<T>(peer: Peer, script: string, args: readonly string[], { timeoutMs, env = {}, cwd }: RunOptions): Promise<T> {
  const python = peerPython(peer);
  if (python === null) throw new Error(`${peer} is not installed; run scripts/interop/install.sh ${peer}`);
  const folder = mkdtempSync(join(tmpdir(), `vf-interop-${peer}-`));
  const path = join(import.meta.dirname, peer, `${script}.py`);
  try {
    const child = spawn(python, [path, ...args], {
      cwd: cwd ?? folder,
      env: { ...variables(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) child[name].setEncoding('utf8').on('data', (chunk: string) => (text[name] += chunk));
    const killGroup = () => void kill(child.pid);
    // Also where vitest ends first.
    process.once('exit', killGroup);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      killGroup();
    }, timeoutMs);
    try {
      const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
      await once(child, 'exit');
      // What it started may hold its pipes open.
      killGroup();
      const [code, signal] = await closed;
      const output = `${text.stdout.slice(-4000)}\n${text.stderr.slice(-8000)}`;
      if (isLate) throw new Error(`${peer}/${script}.py was killed after ${timeoutMs} ms. Its output ended with:\n${output}`);
      if (code !== 0) throw new Error(`${peer}/${script}.py ended with ${signal ?? `exit code ${code}`}. Its output ended with:\n${output}`);
      return parseLast(text.stdout, `${peer}/${script}.py`, output) as T;
    } finally {
      clearTimeout(timer);
      process.off('exit', killGroup);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function parseLast(stdout: string, script: string, output: string): unknown {
  const line = stdout.trimEnd().split('\n').at(-1)!;
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`The last line of ${script} is not JSON. Its output ended with:\n${output}`, { cause });
  }
}

function variables(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !/^VF_|^VITEST|^NODE_|^PYTHON/.test(name));
  return {
    ...Object.fromEntries(own),
    HF_HUB_OFFLINE: '1',
    HF_DATASETS_OFFLINE: '1',
    HF_HUB_DISABLE_TELEMETRY: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONUNBUFFERED: '1',
  };
}

function kill(group: number | undefined): boolean {
  try {
    return group !== undefined && process.kill(-group, 'SIGKILL');
  } catch {
    return false;
  }
}

export interface ServedModel {
  /** Ends with `/v1`. */
  readonly url: string;
  /** Its name at the server. */
  readonly model: string;
}

/**
 * The bundled nano-base, shared by all suites: `completions` by `vf-serve policy` as it is, `chat` by the same with the template
 * test/tokenizer/chatml.jinja, `vllm` by a real vLLM (of test/models/nano-base; VLLM_BASE_URL names one that runs). Started on the first call.
 */
export async function servedModel(kind: ModelKind = 'completions'): Promise<ServedModel> {
  const response = await fetch(`${inject('modelsUrl')}/${kind}`);
  const url = await response.text();
  if (!response.ok) throw new Error(`The model for ${kind} did not start: ${url}`);
  return { url, model: 'nano-base' };
}

/** To be called in a test. Reported at the end if the test passes, and written to the file that VF_INTEROP_RESULTS names. */
export function resultLine(peer: string, version: string, what: string, result: string): void {
  const test = TestRunner.getCurrentTest();
  if (test === undefined) throw new Error('resultLine() was called outside a test; call it in the test whose result it reports.');
  (test.meta.peerResults ??= []).push({ peer, version, what, result });
}
