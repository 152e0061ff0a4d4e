/** Routes whose bodies are JSON: reads, checks and answers them, and answers a request that is sent again as the first time. */
import { hash } from 'node:crypto';
import type { Context, Hono } from 'hono';
import { LRUCache } from 'lru-cache';
import type { XStatic } from 'typebox/schema';
import { readJson } from '../../core/read-json.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import type { BodyBudget } from '../bounded-body.ts';
import { isJson } from '../door.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

export const API = '/api/v1';
/** Answers to requests that may be sent again, by the key that a client gives each. */
const [MOST_ANSWERS, MOST_ANSWER_CHARACTERS, LONGEST_KEY] = [10_000, 2 ** 24, 200] as const;

/** The body of a request. */
export interface Content {
  /** Tells it from others. */
  readonly digest: string;
  /** What it holds, roughly, once it is read. */
  readonly bytes: number;
}

interface RouteContext {
  readonly c: Context;
  readonly content: Content;
  /** Aborts when the client goes. */
  readonly signal: AbortSignal;
}

export type PostRoute = <S extends object>(
  path: string,
  schema: S,
  answer: (body: XStatic<S>, context: RouteContext) => object | Response | Promise<object | Response>,
  /** @default 'POST' */
  method?: 'POST' | 'PUT',
) => void;

/** Routes whose bodies are JSON. An answer that is a plain object is kept for the client's idempotency key. */
export function jsonRoutes(app: Hono, budget: BodyBudget): PostRoute {
  const sizeOf = (answer: object) => JSON.stringify(answer).length;
  const answers = new LRUCache<string, object>({ max: MOST_ANSWERS, maxSize: MOST_ANSWER_CHARACTERS, sizeCalculation: sizeOf });
  return (path, schema, answer, method = 'POST') => {
    const check = schemaCheck(schema);
    app.on(method, `${API}/${path}`, (c) => {
      // Read before anything is awaited; later the server no longer reports that a client disconnected.
      const { signal } = c.req.raw;
      if (!isJson(c.req.raw)) throw new TinkerRefusal(415, 'The content-type of the body must be application/json');
      return budget.withBody(c.req.raw, async (body) => {
        if (!body.ok) throw new TinkerRefusal(body.status, body.detail, { cause: body.cause });
        const content = { digest: hash('sha256', body.text), bytes: 2 * body.text.length };
        const key = idempotencyKey(c, content.digest);
        const known = key === null ? undefined : answers.get(key);
        if (known !== undefined) return c.json(known);
        const value = body.text === '' ? {} : parsed(body.text);
        if (!check(value)) throw new TinkerRefusal(422, schemaProblem(check, 'the body'));
        const answered = await answer(value, { c, content, signal });
        if (answered instanceof Response) return answered;
        if (key !== null) answers.set(key, answered);
        return c.json(answered);
      });
    });
  };
}

function idempotencyKey(c: Context, digest: string): string | null {
  const key = c.req.header('x-idempotency-key');
  return key === undefined || key.length > LONGEST_KEY ? null : `${c.req.path} ${key} ${digest}`;
}

function parsed(text: string): unknown {
  try {
    return readJson(text);
  } catch (cause) {
    throw new TinkerRefusal(422, `The body is no JSON: ${(cause as Error).message}`, { cause });
  }
}
