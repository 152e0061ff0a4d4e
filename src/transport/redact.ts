/** Keeps secrets out of messages, logs and files. Works on text, so that everything that is no secret stays byte for byte. */

// Error texts may quote what a model or a stranger wrote, so both patterns start at a character that their repeated part cannot hold: linear.
const USER_INFO = /(?<=[a-z0-9+.-]:\/\/)[^\s/?#]*@/gi;
const PARAMETER = /([?&;#])([\w.-]+)=[^&;#\s]*/g;
const SECRET_NAME = /key|token|secret|passw(?:or)?d|auth|credential|signature|^sig$|^pwd$/i;
/** Shorter secrets would shred ordinary text; a real one is never this short. */
const SHORTEST_SECRET = 4;

/** The URL (or every URL in the text) with user, password and secret-looking query values shown as `***`. */
export function redactUrl(url: string): string {
  return url
    .replace(USER_INFO, '***@')
    .replace(PARAMETER, (all, mark: string, name: string) => (SECRET_NAME.test(name) ? `${mark}${name}=***` : all));
}

/** The text with every occurrence of a secret, plain or percent-encoded, shown as `***`. Secrets of fewer than 4 characters are left alone. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secretRedactor(secrets)(text);
}

/** `redactSecrets` for many texts and the same secrets. */
export function secretRedactor(secrets: readonly string[]): (text: string) => string {
  const spellings = new Set(secrets.filter((secret) => secret.length >= SHORTEST_SECRET).flatMap((secret) => [secret, percentEncoded(secret)]));
  // Longest first: a secret that contains another one must not leave its rest behind.
  const ordered = [...spellings].toSorted((a, b) => b.length - a.length);
  return (text) => ordered.reduce((redacted, secret) => redacted.replaceAll(secret, '***'), text);
}

function percentEncoded(secret: string): string {
  return encodeURIComponent(secret.toWellFormed());
}
