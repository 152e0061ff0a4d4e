/** Keeps secrets out of messages, logs and files. Works on text, so that everything that is no secret stays byte for byte. */

const USER_INFO = /([a-z][a-z0-9+.-]*:\/\/)[^\s/?#@]*(?:@[^\s/?#@]*)*@/gi;
const SECRET_NAME = String.raw`[\w.-]*(?:key|token|secret|passw(?:or)?d|auth|credential|signature)[\w.-]*|sig|pwd`;
const SECRET_VALUE = new RegExp(String.raw`([?&;#](?:${SECRET_NAME})=)[^&;#\s]*`, 'gi');
/** Shorter secrets would shred ordinary text; a real one is never this short. */
const SHORTEST_SECRET = 4;

/** The URL (or every URL in the text) with user, password and secret-looking query values shown as `***`. */
export function redactUrl(url: string): string {
  return url.replace(USER_INFO, '$1***@').replace(SECRET_VALUE, '$1***');
}

/** The text with every occurrence of a secret, plain or percent-encoded, shown as `***`. Secrets of fewer than 4 characters are left alone. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  const spellings = new Set(secrets.filter((secret) => secret.length >= SHORTEST_SECRET).flatMap((secret) => [secret, percentEncoded(secret)]));
  // Longest first: a secret that contains another one must not leave its rest behind.
  const ordered = [...spellings].toSorted((a, b) => b.length - a.length);
  return ordered.reduce((redacted, secret) => redacted.replaceAll(secret, '***'), text);
}

function percentEncoded(secret: string): string {
  return encodeURIComponent(secret.toWellFormed());
}
