/** Reads a request's JSON within limits, with vLLM's messages for invalid JSON. */
import { type BodyBudget, type ReadBody } from '../bounded-body.ts';
import { isJson } from '../door.ts';
import { PolicyRefusal, problemRefusal } from './policy-refusal.ts';
import type { Parsed } from '../../schemas/policy-server/request-problem.ts';

/** Parses the body with `parse` and passes it to `use`; the bytes count as held until `use` has ended. Throws PolicyRefusal. */
export function withRequest<T>(
  request: Request,
  budget: BodyBudget,
  { parse, use }: { readonly parse: (body: unknown) => Parsed<T>; readonly use: (request: T) => Promise<Response> },
): Promise<Response> {
  if (!isJson(request)) {
    throw new PolicyRefusal(400, "1 validation error: Unsupported Media Type: Only 'application/json' is allowed", { type: 'Bad Request' });
  }
  return budget.withBody(request, (body) => {
    const outcome = parse(jsonOf(body));
    if (!outcome.ok) throw problemRefusal(outcome.problem);
    return use(outcome.request);
  });
}

function jsonOf(body: ReadBody): unknown {
  if (!body.ok) {
    if (body.status === 413) throw new PolicyRefusal(413, 'The body is too large; send fewer or shorter prompts at a time');
    if (body.status === 503) throw new PolicyRefusal(503, body.detail, { retryable: true });
    if (body.status === 408) throw new PolicyRefusal(408, body.detail, { retryable: true });
    throw new PolicyRefusal(400, body.detail, { type: 'Bad Request', param: 'body', cause: body.cause });
  }
  try {
    return JSON.parse(body.text) as unknown;
  } catch (cause) {
    throw new PolicyRefusal(400, `1 validation error: JSON decode error: ${place(cause as Error)}`, { type: 'Bad Request', param: 'body', cause });
  }
}

/** The position of the error, without quoting the body. */
function place({ message }: Error): string {
  return /at position \d+/.exec(message)?.[0] ?? (message.includes('end of JSON') ? 'at the end' : 'at the beginning');
}
