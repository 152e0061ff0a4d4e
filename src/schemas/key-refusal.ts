/** Tells a server that refuses the API key from one that refuses something else with the same status. */
import { errorFields } from './error-fields.ts';

/** `key`: the API key is missing, wrong or may not do this. `page`: a firewall or proxy answered with a web page. `other`: the request itself, whatever the key. */
export type Refused = 'key' | 'page' | 'other';

/** What to say of a `page`. */
export const REFUSING_PAGE = 'a firewall or proxy before the server refuses these requests with a web page';

/** `failure`: the request, its status and the beginning of the answer. */
export function pageText(failure: string): string {
  return `${REFUSING_PAGE[0]!.toUpperCase()}${REFUSING_PAGE.slice(1)}: ${failure}. Give it the credentials that it wants, or reach the server without it (NO_PROXY).`;
}

/** Bodies that give no reason. */
const NO_REASON = /^(\d|error|forbidden|unauthorized|not allowed|(access|permission)( is)? (denied|forbidden))*$/i;
/** Words that speak of a credential: not the key of a key-value pair, and not the name of a field. */
const KEY_WORDS =
  /(?<!-)\bkey\b(?!-| (?:value|pair|frame)| *['"`:])|api[ _-]?key|\b(access|bearer|auth\w*) token\b|\btoken\b.*\b(invalid|expired|missing|access|permission)|\bauth(?!or)|unauthori[sz]ed|credential|log ?in\b/i;

/** Null for any status but 401 and 403. */
export function refusedBy(status: number, body: Buffer): Refused | null {
  if (status !== 401 && status !== 403) return null;
  if (/^\s*</.test(body.subarray(0, 512).toString('utf8'))) return 'page';
  if (status === 401) return 'key';
  const { message } = errorFields(body);
  return NO_REASON.test(message.replace(/[\s.,:!]+/g, ' ').trim()) || KEY_WORDS.test(message) ? 'key' : 'other';
}
