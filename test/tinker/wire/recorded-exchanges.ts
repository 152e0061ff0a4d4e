/** The exchanges in `test/golden/tinker`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Body {
  readonly json?: Record<string, unknown>;
  readonly base64?: string;
}

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly request: Body | null;
  readonly status: number;
  readonly response: Body;
}

export function recorded(name: string): readonly Exchange[] {
  const text = readFileSync(join(import.meta.dirname, '../../golden/tinker', `${name}.jsonl`), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Exchange);
}

export function bytesIn({ base64 }: Body): Uint8Array {
  return new Uint8Array(Buffer.from(base64!, 'base64'));
}

/** Requests to a route, each with the result that the client fetched for it. */
export function withResults(exchanges: readonly Exchange[], route: string): readonly { readonly request: Body; readonly result: Body }[] {
  return exchanges.flatMap(({ path, request, response }) => {
    if (path !== `/api/v1/${route}`) return [];
    const id = response.json!['request_id'];
    const fetched = exchanges.find((each) => each.path.endsWith('/retrieve_future') && each.request?.json?.['request_id'] === id);
    return fetched === undefined ? [] : [{ request: request!, result: fetched.response }];
  });
}
