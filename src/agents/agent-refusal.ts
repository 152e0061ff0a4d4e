import type { PolicyError } from '../core/errors.ts';
import { RefusedRequestError, refusalReason } from '../core/refused-request-error.ts';
import { type AgentRequest, CHAT_KEYS, type SettingKeys } from './agent-request.ts';

/** OpenAI's names. */
export type RefusalCode = 'context_length_exceeded';

/** A header of what the gateway refuses: an error that a client makes of it is recognised by it. */
export const GATEWAY_HEADER = 'x-vf-gateway';

/** A request that cannot be honoured. The dialect gives it its own form. */
export class AgentRefusal extends Error {
  readonly status: number;
  /** The key at fault, such as `messages[2].content`; null if none is. */
  readonly param: string | null;
  /** What clients look for in order to act on it, such as to shorten the conversation. @default null */
  readonly code: RefusalCode | null;
  /** What was asked is at fault, rather than the policy or the moment. */
  readonly isOfRequest: boolean;

  /** @param isOfRequest @default true for a status of 4xx without a code */
  constructor(
    status: number,
    param: string | null,
    message: string,
    code: RefusalCode | null = null,
    isOfRequest: boolean = status < 500 && code === null,
  ) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
    this.isOfRequest = isOfRequest;
  }
}

/** Throws the refusal of a setting, by the key that the request has for it. @param because worded to follow "cannot be honoured:" */
export function refuseSetting({ keys }: Pick<AgentRequest, 'keys'>, setting: keyof SettingKeys, because: string): never {
  const key = keys?.[setting] ?? CHAT_KEYS[setting];
  throw new AgentRefusal(400, key, `${key} cannot be honoured: ${because.replace(/\.$/, '')}.`);
}

/** The refusal of the policy's server, as it words it, which names the keys of Chat Completions. */
export function serverRefusal(error: PolicyError): AgentRefusal {
  const param = error instanceof RefusedRequestError ? error.param : null;
  const words = refusalReason(error).replace(/ \(parameter=[^()]*\)$/, '');
  const begun = param === null ? "The policy's server refused the request: " : words.startsWith(param) ? '' : `${param} cannot be honoured: `;
  return new AgentRefusal(400, param, begun + words);
}
