/** Parts of cards for the Hugging Face Hub: front matter in YAML, and Markdown in which names are plain text. */

/** Names of files and data sets have characters that Markdown would read. */
export function escaped(text: string): string {
  return text.replace(/[\\`*_[\]<>|#]/g, '\\$&');
}

/** Unquoted if YAML reads it as text. */
export function scalar(text: string): string {
  const isPlain = /^[A-Za-z][\w./-]*$/.test(text) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(text);
  return isPlain ? text : JSON.stringify(text);
}

/** A block of code with a fence that the text cannot end. */
export function codeBlock(language: string, text: string): string[] {
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)));
  return [`${fence}${language}`, text, fence];
}
