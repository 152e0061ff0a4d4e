/**
 * The page of `vf-view --lab`, with the weights and kernels that it needs, over HTTP: a fixed list of files. The page is isolated from other sites (COOP and COEP), so
 * that its threads may share memory; it may compile WebAssembly, and send requests to this server only.
 */
import { join } from 'node:path';
import { type Context, Hono } from 'hono';
import { openRegularFile } from '../../files/regular-file.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';

export interface LabAppOptions {
  /** Folder with the page, which the build writes to dist/web/lab. */
  readonly page: string;
  /** Folder with the directories of bundled models. */
  readonly models: string;
  /** Folder with the compiled kernels. */
  readonly kernels: string;
  /** The address that the app listens on. */
  readonly host: string;
  /** False leaves out the headers that isolate the page, so that it computes in one thread. @default true */
  readonly isolated?: boolean;
  /** Called for every failure. @default does nothing */
  readonly onFailure?: (error: unknown) => void;
}

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-cache',
} as const;

/** With both a page gets SharedArrayBuffer. Workers need them too. */
const ISOLATION = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' } as const;

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  json: 'application/json',
  wasm: 'application/wasm',
  safetensors: 'application/octet-stream',
};

/** The headers that a server of the page sends with every file. */
export const LAB_HEADERS: Readonly<Record<string, string>> = { ...HEADERS, ...ISOLATION };

/** The files of the page: those of its own, then those of the package. */
export const PAGE_FILES = ['index.html', 'lab.js', 'lab.css', 'train.js', 'thread.js', 'lab.json'] as const;
export const KERNEL_FILES = ['relaxed.wasm', 'plain.wasm'] as const;
export const MODEL_FILES = ['config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'] as const;
export const MODEL = 'nano-base';

export function labApp({ page, models, kernels, host, isolated = true, onFailure = () => {} }: LabAppOptions): Hono {
  const app = new Hono();
  const namesThisServer = hostCheck(host);
  const headers = Object.entries(isolated ? LAB_HEADERS : HEADERS);
  app.use(async (c, next) => {
    for (const [name, value] of headers) c.header(name, value);
    if (!namesThisServer(c.req.raw)) return refuse(c, 403, WRONG_HOST);
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return refuse(c, 405, 'This server only answers GET.');
    return next();
  });
  const offer = (path: string, file: string) =>
    app.get(path, async (c) => c.body(await bytesOf(file), 200, { 'content-type': TYPES[file.slice(file.lastIndexOf('.') + 1)]! }));
  offer('/', join(page, 'index.html'));
  for (const name of PAGE_FILES) offer(`/${name}`, join(page, name));
  for (const name of KERNEL_FILES) offer(`/kernels/${name}`, join(kernels, name));
  for (const name of MODEL_FILES) offer(`/models/${MODEL}/${name}`, join(models, MODEL, name));
  app.notFound((c) => refuse(c, 404, 'Nothing is at this address. Open / for the page.'));
  app.onError((error, c) => {
    onFailure(error);
    return refuse(c, 500, 'The file could not be read. Install the package again, or run npm run build in a clone.');
  });
  return app;
}

function refuse(c: Context, status: 403 | 404 | 405 | 500, problem: string): Response {
  return c.json({ problem }, status);
}

async function bytesOf(path: string): Promise<Uint8Array<ArrayBuffer>> {
  await using file = await openRegularFile(path);
  return new Uint8Array(await file.readFile());
}
