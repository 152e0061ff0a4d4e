/**
 * YAML 1.1, as PyYAML's safe loader reads it, without dates: `yes` is true, `010` is 8. Refuses tags that it does not know, alias bombs, and
 * integers that JavaScript cannot hold. Differs from PyYAML in `1e3`, which is a number here.
 */
import { type Document, parseDocument, type ScalarTag, type Tags } from 'yaml';
import { thrownText } from '../core/errors.ts';
import { PipelineFileError } from './pipeline-error.ts';

/** Aliases may multiply the size of a document by at most this. The library's own default. */
const MAX_ALIASES = 100;
/** The parser recurses for each level. */
const MAX_DEPTH = 100;

const KNOWN_TAGS = new Set(['null', 'bool', 'int', 'float', 'str', 'map', 'seq', 'merge'].map((name) => `tag:yaml.org,2002:${name}`));

const asPython = (tags: Tags): Tags =>
  tags.flatMap((tag) => {
    if (typeof tag === 'string' || !KNOWN_TAGS.has(tag.tag)) return [];
    const { test } = tag as ScalarTag;
    // YAML 1.1 counts y and n as booleans, but PyYAML does not.
    return tag.tag.endsWith(':bool') && test ? [{ ...(tag as ScalarTag), test: new RegExp(`(?!^[YyNn]$)${test.source}`) }] : [tag];
  });

/** `where` names the text in messages. Throws PipelineFileError. */
export function parseYaml(text: string, where: string): unknown {
  const document = parseYamlDocument(text, where);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (cause) {
    const aliases = cause instanceof ReferenceError && /excessive alias/i.test(cause.message);
    throw refusal(aliases ? `${where} has too many aliases (an alias bomb)` : `${where} cannot be read as YAML: ${firstLine(cause)}`, cause);
  }
  return plain(value, where, 0);
}

/** The document with its comments, for changes that keep them. Throws PipelineFileError. */
export function parseYamlDocument(text: string, where: string): Document.Parsed {
  let document: Document.Parsed;
  try {
    document = parseDocument(text, { version: '1.1', intAsBigInt: true, customTags: asPython, logLevel: 'error', prettyErrors: true });
  } catch (cause) {
    throw cause instanceof RangeError ? tooDeep(where, cause) : refusal(`${where} cannot be read as YAML: ${firstLine(cause)}`, cause);
  }
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined && /call stack/i.test(problem.message)) throw tooDeep(where, problem);
  if (problem !== undefined) throw refusal(`${where} is not valid YAML: ${firstLine(problem)}`, problem);
  return document;
}

/** Whole numbers as numbers. */
function plain(value: unknown, where: string, depth: number): unknown {
  if (depth > MAX_DEPTH) throw tooDeep(where);
  if (typeof value === 'bigint') {
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw refusal(`${where} has the integer ${value}, which is beyond 2^53; write it in quotes`);
  }
  if (Array.isArray(value)) return value.map((each) => plain(each, where, depth + 1));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each, where, depth + 1)]));
}

function firstLine(thrown: unknown): string {
  // The library's messages end with the place, a colon and the lines around it.
  return thrownText(thrown).split('\n')[0]!.replace(/:\s*$/, '');
}

function tooDeep(where: string, cause?: unknown): PipelineFileError {
  return refusal(`${where} is nested more than ${MAX_DEPTH} levels deep`, cause);
}

function refusal(message: string, cause?: unknown): PipelineFileError {
  return new PipelineFileError(message, { fault: 'yaml', cause });
}
