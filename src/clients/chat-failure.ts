/**
 * The typed error for a response of a chat API that is not a completion: by its status, or by its body if the status is 200. Some failures end the run,
 * because no later request can succeed: a wrong key, an empty account, a wrong path.
 */
import { NumericPolicyError, PolicyError, PromptTooLongError } from '../core/errors.ts';
import { RefusedRequestError } from '../core/refused-request-error.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import { type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { creditText, isOutOfCredit, saysOutOfCredit } from '../schemas/out-of-credit.ts';
import { pageText, refusedBy } from '../schemas/key-refusal.ts';
import { quotation } from '../transport/quotes.ts';
import { redactUrl } from '../transport/redact.ts';
import { type ErrorFields, errorFields } from '../schemas/error-fields.ts';
import { refusesLength } from './prompt-length-error.ts';
import { withoutTrailingSlashes } from '../core/server-url.ts';

export interface FailureContext {
  /** Method, URL, status and the beginning of the body, without secrets. */
  readonly failure: string;
  /** Removes the server's credentials from a string. */
  readonly hide: (text: string) => string;
  readonly model: string;
  /** The environment variable that contains the key, for the remedy; null if there is none. */
  readonly apiKeyVariable: string | null;
  /** The base URL without secrets. */
  readonly url: string;
  /** The server has returned a completion before, so a 403 or 404 concerns one request only. */
  readonly hasAnswered: boolean;
}

/** Statuses of a path that does not exist, or not for POST. */
const WRONG_PATH = [404, 405];

/** Statuses that concern what was asked. */
const OF_REQUEST = [400, 413, 422];
/** Characters of the server's words that an agent gets. Fewer than are read, because a secret that was cut would not be recognised. */
const MOST_REASON = 500;

/** The typed error for a response with a status other than 2xx. */
export function chatError(context: FailureContext, response: HttpResponse): PolicyError {
  const { failure, hide, model, apiKeyVariable, url, hasAnswered } = context;
  const options = statusOptions(response);
  const { status } = response;
  const fields = errorFields(response.body);
  const { codes, message } = fields;
  const refusal = { ...options, endsRun: status === 401 || !hasAnswered };
  if (status !== 401 && isOutOfCredit(status, fields)) return new PolicyError(creditText(failure), { status, endsRun: true });
  const refused = refusedBy(status, response.body);
  if (refused === 'page') return new PolicyError(pageText(failure), refusal);
  if (refused === 'other') return new PolicyError(`The API does not allow the request: ${failure}`, refusal);
  if (refused === 'key') {
    const remedy = apiKeyVariable === null ? 'Set an API key' : `Check the key in ${apiKeyVariable}`;
    return new PolicyError(`The API rejected the key: ${failure}. ${remedy}.`, refusal);
  }
  if (WRONG_PATH.includes(status) && lacksVersion(url) && !/model/i.test(codes.join(' ') + message)) return wrongPath(context, status);
  if (status === 404)
    return new PolicyError(
      `The API at this URL does not serve the model ${JSON.stringify(model)}: ${failure}. Check the model and the URL.`,
      refusal,
    );
  if (status >= 300 && status < 400) {
    const to = response.headers['location'];
    const remedy = typeof to === 'string' ? `Pass the URL that it names: it redirects to ${quotation(redactUrl(to).slice(0, 200))}` : 'Check the URL';
    return new PolicyError(`The API redirects instead of answering: ${failure}. ${remedy}.`, { ...options, endsRun: !hasAnswered });
  }
  if (/out of range float values/i.test(message)) return new NumericPolicyError(`The server computed NaN: ${failure}`, { status });
  if (refusesLength(response)) return new PromptTooLongError(`The prompt does not fit the model's window: ${failure}`, { status });
  if ((status === 429 || status === 413) && /request too large/i.test(message))
    return new PolicyError(`The request alone exceeds the rate limit of the API key: ${failure}. Lower -t, or use a key with a higher limit.`, {
      status,
    });
  if (!OF_REQUEST.includes(status) || message === '') return new PolicyError(`The API failed: ${failure}`, options);
  const reason = hide(message.replaceAll(/[\s\p{Cc}]+/gu, ' ')).slice(0, MOST_REASON);
  const [param] = fields.params;
  return new RefusedRequestError(`The API refused the request: ${failure}`, { ...options, param: param === undefined ? null : hide(param), reason });
}

/** False for the body of a 200 that is certainly a completion, which need not be parsed twice. */
export function mayReportError(body: Buffer): boolean {
  const head = body.subarray(0, 4096).toString('latin1');
  return /^\s*<|"(error|base_resp)"/.test(head) || !head.includes('"choices"');
}

/** The error in a 200 response; null if the reader of completions should judge it. `failure` of the context quotes the body. */
export function chatBodyError(context: FailureContext, body: Buffer): PolicyError | null {
  const text = body.subarray(0, 512).toString('utf8');
  if (/^\s*</.test(text)) {
    if (lacksVersion(context.url) && !context.hasAnswered) return wrongPath(context, 200);
    // It may be the page of a gateway that is overloaded.
    const message = `The API answered with a web page: ${context.failure}. Check the URL.`;
    return new PolicyError(message, { status: 200, retryable: true, endsRun: !context.hasAnswered });
  }
  const json = jsonOrNull(body.toString('utf8'));
  if (!isObject(json)) return null;
  const { choices, error, base_resp: base } = json;
  const isCompletion = Array.isArray(choices) && (choices.length > 0 || ((error === undefined || error === null) && !isMiniMaxFailure(base)));
  if (isCompletion) return null;
  const status = statusIn(errorFields(body), base);
  if (status !== null) return chatError(context, { status, headers: {}, body });
  // As if it were the 400 that it should be.
  const refusal = { status: 400, headers: {}, body };
  if (refusesLength(refusal)) return chatError(context, refusal);
  return lacksVersion(context.url) && !context.hasAnswered ? wrongPath(context, 200) : null;
}

function wrongPath({ failure, url, hasAnswered }: FailureContext, status: number): PolicyError {
  const remedy = `The base URL has no /v1; try ${withVersion(url)}`;
  return new PolicyError(`This URL is not that of a chat API: ${failure}. ${remedy}.`, { status, endsRun: !hasAnswered });
}

/** Statuses of MiniMax's codes, which it sends with a 200. */
const MINIMAX_STATUS: Readonly<Record<string, number>> = { 1001: 504, 1002: 429, 1004: 401, 1008: 402, 1039: 429 };

function isMiniMaxFailure(base: unknown): boolean {
  const code = fieldsOf(base)['status_code'];
  return typeof code === 'number' && code !== 0;
}

/** The HTTP status that the body of a 200 reports; null if it reports none. */
function statusIn({ codes }: ErrorFields, base: unknown): number | null {
  if (base !== undefined) return MINIMAX_STATUS[String(fieldsOf(base)['status_code'])] ?? null;
  if (saysOutOfCredit(codes)) return 402;
  const status = codes.find((code) => /^[45]\d\d$/.test(code));
  return status === undefined ? null : Number(status);
}

/** Azure has the version in its query. */
function lacksVersion(url: string): boolean {
  const parsed = URL.parse(url);
  return !/\/v\d\w*(\/|$)/.test(parsed?.pathname ?? '') && parsed?.searchParams.has('api-version') !== true;
}

function withVersion(url: string): string {
  const [base, query] = url.split('?', 2);
  return `${withoutTrailingSlashes(base!)}/v1${query === undefined ? '' : `?${query}`}`;
}
