import { hideSecrets, mapStrings, redactUrl, secretRedactor } from '../transport/redact.ts';

/** Keeps a run's secrets out of its files. Object keys stay as they are; numbers are never touched. */
export interface Redaction {
  /** Removes secrets and credentials in URLs from prose. */
  text(text: string): string;
  /** Removes the secrets from every string of JSON data. Text of models and passages is otherwise unchanged. */
  values<T>(data: T): T;
  /** As `values`, for settings: also hides credentials in URLs and everything under a key such as `api_key` or `serper_token`. */
  settings<T>(data: T): T;
}

export function redactionOf(secrets: readonly string[]): Redaction {
  const withoutSecrets = secretRedactor(secrets);
  const text = (value: string) => withoutSecrets(redactUrl(value));
  return {
    text,
    values: (data) => (secrets.length === 0 ? data : mapStrings(data, withoutSecrets)),
    settings: (data) => hideSecrets(data, '', text),
  };
}
