/**
 * Marks what an error quotes of a server's answer, so that a server which passes errors on to its own callers can leave it out: the caller may have chosen a service that
 * only this machine reaches, to read what it answers. The log of the server keeps the quotation.
 */
import { transportSettings } from './transport-settings.ts';

/** Characters of a private area of Unicode, which no quotation keeps. */
const [BEGIN, END] = ['\u{f0a5e}', '\u{f0a5f}'] as const;
const MARKS = /[\u{f0a5e}\u{f0a5f}]/gu;
/** Without its end where a message was cut. */
const QUOTATION = / ?\u{f0a5e}[^\u{f0a5f}]*(?:\u{f0a5f}|$)/gu;

/** The text, marked where the settings of the running call say so. */
export function quotation(text: string): string {
  const plain = unmarked(text);
  return transportSettings().marksQuotations && plain !== '' ? `${BEGIN}${plain}${END}` : plain;
}

/** A message for those who must not read what other servers answer. */
export function withoutQuotations(message: string): string {
  return message.replace(QUOTATION, '');
}

/** A message for those who may read all of it. */
export function unmarked(message: string): string {
  return message.replace(MARKS, '');
}
