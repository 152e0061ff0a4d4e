/** The real readers of curves: TensorBoard's library in a Python process, and `wandb sync` against a loopback server that takes what it uploads. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer, text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';

/** The Python that scripts/curve-readers/install.sh made. Null where there is none. */
export const readersPython = find();

/** Added to the titles of skipped tests. */
export const skipReason = readersPython === null ? ' (skipped: run scripts/curve-readers/install.sh)' : '';

function find(): string | null {
  const path = join(process.env['VF_CURVE_READERS_DIR'] ?? join(homedir(), '.cache/vf-search/curve-readers'), 'venv/bin/python');
  return existsSync(path) && spawnSync(path, ['-c', 'import tensorboard']).status === 0 ? path : null;
}

export interface ReadEvents {
  /** [wall time, step, value] by tag. */
  readonly scalars: Readonly<Record<string, readonly (readonly [number, number, number])[]>>;
  readonly hyperparameters: Readonly<Record<string, unknown>>;
  readonly config: string;
}

/** TensorBoard, which keeps what it has read of a folder and reads on. */
export class TensorboardReader implements AsyncDisposable {
  readonly #child;
  readonly #lines;

  constructor(folder: string) {
    this.#child = spawn(readersPython!, [join(import.meta.dirname, 'read_events.py'), folder], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  async read(): Promise<ReadEvents> {
    this.#child.stdin.write('read\n');
    return JSON.parse(String((await this.#lines.next()).value)) as ReadEvents;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    await new Promise((resolve) => this.#child.once('close', resolve));
  }
}

/** What `wandb sync` uploads of a run. */
export interface SyncedRun {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly history: readonly Readonly<Record<string, number>>[];
  summary: Readonly<Record<string, unknown>>;
  exitCode: number | null;
}

/** Runs `wandb sync` on the folders. Returns the runs by id, and what it printed. */
export async function wandbSync(folders: readonly string[], home: string): Promise<{ readonly runs: Map<string, SyncedRun>; readonly said: string }> {
  const runs = new Map<string, SyncedRun>();
  const server = createServer((request, response) => {
    void answer(request, runs).then((body) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const child = spawn(join(dirname(readersPython!), 'wandb'), ['sync', '--yes', ...folders], {
      env: {
        PATH: process.env['PATH'],
        HOME: home,
        WANDB_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        WANDB_API_KEY: '0'.repeat(40),
        WANDB_ERROR_REPORTING: 'false',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const said = await text(child.stderr);
    return { runs, said };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

interface FileStream {
  readonly files?: Readonly<Record<string, { readonly content: readonly string[] }>>;
  readonly complete?: boolean;
  readonly exitcode?: number;
}

async function answer(request: IncomingMessage, runs: Map<string, SyncedRun>): Promise<unknown> {
  const bytes = await buffer(request);
  const body = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString('utf8');
  const id = /^\/files\/[^/]+\/[^/]+\/([^/]+)\/file_stream$/.exec(request.url ?? '')?.[1];
  if (id !== undefined) {
    takeFiles(JSON.parse(body) as FileStream, runs.get(id)!);
    return {};
  }
  if (request.url !== '/graphql') return {};
  const { query, variables } = JSON.parse(body) as { query: string; variables: Readonly<Record<string, unknown>> };
  return {
    data: query.includes('upsertBucket') ? upserted(variables, runs) : query.includes('createRunFiles') ? createdFiles(variables, request) : {},
  };
}

function takeFiles({ files = {}, exitcode }: FileStream, run: SyncedRun): void {
  const lines = (name: string) => (files[name]?.content ?? []).map((line) => JSON.parse(line) as Record<string, number>);
  (run.history as Record<string, number>[]).push(...lines('wandb-history.jsonl'));
  run.summary = { ...run.summary, ...lines('wandb-summary.json').at(-1) };
  if (exitcode !== undefined) run.exitCode = exitcode;
}

function upserted(variables: Readonly<Record<string, unknown>>, runs: Map<string, SyncedRun>): unknown {
  const { name, project } = variables as { name: string; project: string };
  // Later calls repeat only some of the first one's variables.
  if (!runs.has(name)) runs.set(name, { variables, history: [], summary: {}, exitCode: null });
  const owner = { id: 'project', name: project, entity: { id: 'entity', name: 'someone' } };
  return { upsertBucket: { inserted: true, bucket: { id: name, name, config: '{}', historyLineCount: 0, project: owner } } };
}

function createdFiles({ run, files }: Readonly<Record<string, unknown>>, { headers }: IncomingMessage): unknown {
  const uploads = (files as readonly string[]).map((name) => ({ name, uploadUrl: `http://${headers.host}/upload` }));
  return { createRunFiles: { runID: run, uploadHeaders: [], files: uploads } };
}
