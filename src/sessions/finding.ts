/** Result of one check. */

/** `skipped`: could not be checked, or is not needed here; the text says which. */
export type FindingState = 'ok' | 'missing' | 'warning' | 'skipped';

export interface Finding {
  /** The subject of the check, in a word or two. */
  readonly name: string;
  readonly state: FindingState;
  readonly text: string;
  /** A command that fixes it, or an instruction. Every `missing` has one. */
  readonly remedy?: string;
}

export const ok = (name: string, text: string): Finding => ({ name, state: 'ok', text });
export const skipped = (name: string, text: string): Finding => ({ name, state: 'skipped', text });
export const missing = (name: string, text: string, remedy: string): Finding => ({ name, state: 'missing', text, remedy });
export const warning = (name: string, text: string, remedy: string): Finding => ({ name, state: 'warning', text, remedy });
/** `missing`, from an error whose last sentence says what to do. */
export function refusal(name: string, message: string): Finding {
  const sentences = message.split(/(?<=[.!?]) (?=[A-Z])/);
  const [last = message] = sentences.splice(-1);
  return sentences.length === 0
    ? missing(name, last, 'change the setting that it names')
    : missing(name, sentences.join(' ').replace(/\.$/, ''), last);
}
