/** Keeps secrets out of messages, logs and files. Works on text, so that everything else stays byte for byte. */
import { hideSpellings, secretSpellings } from './secret-spellings.ts';

// Error messages may quote untrusted text. Both patterns take linear time, because they start at a character that their repeated part cannot match.
const USER_INFO = /(?<=[a-z0-9+.-]:\/\/)[^\s/?#]*@/gi;
/** Leaves a value that is already hidden, so that a quote behind it, of a shell or of JSON, stays. */
const PARAMETER = /([?&;#])([\w.-]+)=(?!\*\*\*(?:["'&;#\s]|$))[^&;#\s]*/g;
/** Matches up to the character that ends a URL in a shell, in JSON, TOML or Markdown. The host may be an IPv6 address in brackets. */
const ADDRESS = /\b(?:https?|wss?):\/\/(?!huggingface\.co(?![\w.:@-]))(?:\[[^\]\s]*\])?[^\s"'`<>()[\]{},]*/gi;
/** The last word of a secret's name, joined to the words before it or not: `apiKey`, `API-KEYS`, `apikey`. */
const SECRET_WORD =
  /^(?:(?:api|access|auth|bearer|client|private|refresh|secret|session)*(?:keys?|tokens?|secrets?|passw(?:or)?ds?|passphrases?|credentials?|cookies?|signatures?)|pwd|sig|o?auth|authorization|bearer|accesskeyid)$/;
/** Words that make a following key or token ordinary: `answer_key`, `max_tokens`, `eos_token`. */
const INNOCENT_KEY =
  /^(?:answers?|cache|column|dict|field|foreign|group|index|join|json|label|object|partition|primary|prompt|public|question|row|sort|state)$/;
const INNOCENT_TOKEN =
  /^(?:added|all|begin|bos|cached|cls|completion|context|end|eos|generated|image|input|keep|kept|mask|max|maximum|min|minimum|n|new|num|number|observation|of|output|pad|prompt|reasoning|response|sampled|sep|skip|special|start|stop|think|total|unk|unknown|vocab)$/;
/** Hiding shorter secrets would damage ordinary text; real ones are longer. */
const SHORTEST_SECRET = 4;

/** A URL, or text that contains URLs, with user names, passwords and query values under secret names replaced by `***`. */
export function redactUrl(url: string): string {
  return url.replace(USER_INFO, '***@').replace(PARAMETER, (all, mark: string, name: string) => (isSecretName(name) ? `${mark}${name}=***` : all));
}

/**
 * True if a value under this name is a secret: `api_key`, `X-Auth`, `serperToken`, `access_tokens`. The package's only definition, used for arguments,
 * headers, query parameters and recorded settings.
 */
export function isSecretName(name: string): boolean {
  const words = name
    .slice(-200)
    .replace(/([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$3_$2')
    .toLowerCase()
    // A name with a space is a phrase.
    .split(/[^a-z\s]+/)
    // `token_2` and `token_v2` are tokens.
    .filter((word, i) => word !== '' && (i === 0 || word !== 'v'));
  const [last = '', before = ''] = /access_?key_?id$/.test(words.join('_')) ? ['accesskeyid'] : words.toReversed();
  if (!SECRET_WORD.test(last)) return false;
  if (/^keys?$/.test(last)) return !INNOCENT_KEY.test(before);
  return !(/^tokens?$/.test(last) && INNOCENT_TOKEN.test(before));
}

/** A copy of JSON data in which every string under a secret name, at any depth, is `***`. `replace` is applied to the other strings. */
export function hideSecrets<T>(data: T, name = '', replace: (text: string) => string = redactUrl): T {
  return hidden(data, isSecretName(name), replace) as T;
}

function hidden(data: unknown, isSecret: boolean, replace: (text: string) => string): unknown {
  if (typeof data === 'string') return isSecret ? '***' : replace(data);
  if (Array.isArray(data)) return data.map((item) => hidden(item, isSecret, replace));
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, hidden(value, isSecret || isSecretName(name), replace)]));
}

/** A text for other people, with `URL` in place of every address of a server except those of the public hub. */
export function hideAddresses(text: string): string {
  return text.replace(ADDRESS, 'URL');
}

/** A copy of JSON data with every string replaced; names and numbers stay. */
export function mapStrings<T>(data: T, replace: (text: string) => string): T {
  if (typeof data === 'string') return replace(data) as T;
  if (Array.isArray(data)) return data.map((item) => mapStrings(item as unknown, replace)) as T;
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, mapStrings(value as unknown, replace)])) as T;
}

/** The text with every occurrence of a secret, in any of its spellings, replaced by `***`. Secrets of fewer than 4 characters are not replaced. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secretRedactor(secrets)(text);
}

/** `redactSecrets` for many strings and the same secrets. */
export function secretRedactor(secrets: readonly string[]): (text: string) => string {
  const spellings = secretSpellings(secrets.filter((secret) => secret.length >= SHORTEST_SECRET));
  return (text) => hideSpellings(text, spellings);
}
