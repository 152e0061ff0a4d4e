/**
 * The typed error for what a model of the AI SDK threw. A refusal over HTTP is judged as that of any chat API (chat-failure.ts), by status and body: the SDK's own
 * `isRetryable` knows neither an empty account nor a prompt that is too long.
 */
import { causeText, PolicyError, thrownText, VfError } from '../core/errors.ts';
import { RefusedRequestError } from '../core/refused-request-error.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { httpErrorText, type HttpHeaders, type HttpResponse } from '../transport/http-endpoint.ts';
import { chatBodyError, chatError, type FailureContext } from './chat-failure.ts';

export interface ThrownBy {
  /** Provider and model, for messages. */
  readonly where: string;
  readonly model: string;
  readonly hide: (text: string) => string;
  readonly hasAnswered: boolean;
}

/** The response that an error of the AI SDK carries; null if it has none. */
export function responseOf(thrown: unknown): HttpResponse | null {
  const { statusCode, responseHeaders, responseBody, data } = errorFieldsOf(thrown);
  if (typeof statusCode !== 'number') return null;
  const text = typeof responseBody === 'string' ? responseBody : (JSON.stringify(data) ?? thrownText(thrown));
  const headers = Object.entries(fieldsOf(responseHeaders)).map(([name, value]) => [name.toLowerCase(), String(value)]);
  return { status: statusCode, headers: Object.fromEntries(headers) as HttpHeaders, body: Buffer.from(text) };
}

/** Errors of the AI SDK that no later request of the run would avoid. */
const OF_SETUP = /^AI_(LoadAPIKey|LoadSetting|NoSuchModel|NoSuchProvider|NoSuchProviderReference|UnsupportedModelVersion|InvalidArgument)Error$/;
/** Those that depend on the request. */
const OF_REQUEST = /^AI_(UnsupportedFunctionality|InvalidPrompt|InvalidMessageRole|MessageConversion)Error$/;
/** Those of an answer that cannot be read; their messages quote it. */
const OF_ANSWER = /^AI_(JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody|NoContentGenerated|NoOutputGenerated)Error$/;

/** What Node and undici say of a connection that broke. */
const NETWORK = /\b(ECONN\w+|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|UND_ERR_\w+)\b|^terminated|fetch failed|socket hang up|other side closed/;

/** Texts of other libraries in a message. */
const MOST_QUOTED = 300;

export function languageModelError(thrown: unknown, by: ThrownBy): PolicyError {
  const { where, hide } = by;
  const error = errorFieldsOf(thrown);
  const response = responseOf(thrown);
  if (response !== null) return refusal(response, textOf(error['url']), by);
  const name = textOf(error['name']);
  if (OF_ANSWER.test(name)) return unreadable(error['data'] ?? error['value'], name, by);
  const said = hide(causeText(thrown).replaceAll(/\s+/g, ' ')).slice(0, MOST_QUOTED);
  // The cause may quote what was sent; it goes along where nothing had to be hidden.
  const cause = thrown instanceof VfError || said === causeText(thrown) ? { cause: thrown } : {};
  if (OF_SETUP.test(name)) return new PolicyError(`${where} cannot be asked: ${said}`, { endsRun: true, ...cause });
  if (OF_REQUEST.test(name)) return new RefusedRequestError(`${where} cannot take the request: ${said}`, { param: null, reason: said, ...cause });
  if (name === 'AI_APICallError') return new PolicyError(`${where} did not answer: ${said}`, { retryable: error['isRetryable'] === true, ...cause });
  return new PolicyError(`${where} failed: ${said}`, { retryable: error['isRetryable'] === true || NETWORK.test(causeText(thrown)), ...cause });
}

/** The error with which a stream broke off. */
export function cutStream(thrown: unknown, by: ThrownBy): PolicyError {
  if (responseOf(thrown) !== null || textOf(errorFieldsOf(thrown)['name']).startsWith('AI_')) return languageModelError(thrown, by);
  return new PolicyError(`The stream of ${by.where} was cut: ${by.hide(causeText(thrown)).slice(0, MOST_QUOTED)}`, { retryable: true });
}

/** The error that a stream reported in place of its end: an error of the SDK, or the provider's own words. */
export function streamError(thrown: unknown, by: ThrownBy): PolicyError {
  if (thrown instanceof Error) return languageModelError(thrown, by);
  return unreadable(isObject(thrown) && 'error' in thrown ? thrown : { error: thrown }, 'an error in its stream', by);
}

/** An answer that is no completion, although its status says so; it may report an error itself. */
function unreadable(answer: unknown, what: string, by: ThrownBy): PolicyError {
  const body = Buffer.from(JSON.stringify(answer) ?? '');
  const context = contextOf({ status: 200, headers: {}, body }, '', by);
  return (
    chatBodyError(context, body) ?? new PolicyError(`The answer of ${by.where} could not be read (${what}): ${context.failure}`, { retryable: true })
  );
}

function refusal(response: HttpResponse, url: string, by: ThrownBy): PolicyError {
  const context = contextOf(response, url, by);
  const unread = () =>
    new PolicyError(`The answer of ${by.where} could not be read: ${context.failure}`, { status: response.status, retryable: true });
  if (response.status >= 200 && response.status < 300) return chatBodyError(context, response.body) ?? unread();
  return chatError(context, response);
}

function contextOf({ status, body }: HttpResponse, url: string, { where, model, hide, hasAnswered }: ThrownBy): FailureContext {
  return {
    failure: httpErrorText('POST', hide(url === '' ? where : url), status, body, hide),
    hide,
    model,
    apiKeyVariable: null,
    // Without the route, which the provider added.
    url: (url === '' ? UNKNOWN_URL : hide(url)).replace(/\/(chat\/completions|completions|responses|messages)(?=$|\?)/, ''),
    hasAnswered,
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Of a request whose address the SDK does not tell: nothing is wrong with it. */
const UNKNOWN_URL = 'ai-sdk:/v1';

/** The fields of an error; those of its cause where it only wraps the error of a request. */
function errorFieldsOf(thrown: unknown): Readonly<Record<string, unknown>> {
  const fields = thrown as Readonly<Record<string, unknown>>;
  if (!isObject(thrown)) return {};
  const inner = fields['cause'] ?? fields['lastError'];
  return typeof fields['statusCode'] !== 'number' && isObject(inner) && typeof inner['statusCode'] === 'number' ? inner : fields;
}
