/** No pattern of the package takes more than linear time on the text of a stranger: V8 matches by trying, and on one thread. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';
import { leftToolCalls } from '../../src/core/left-tool-calls.ts';
import { withoutNonFinite } from '../../src/core/finite-json.ts';
import { Random } from '../../src/core/random.ts';
import { serverRoot, withoutTrailingSlashes } from '../../src/core/server-url.ts';
import { readGoldenAnswers } from '../../src/schemas/golden-answers.ts';
import { refusedBy } from '../../src/schemas/key-refusal.ts';
import { onOneLine } from '../../src/schemas/on-one-line.ts';
import { parsedRecord } from '../../src/viewing/rollout-reader.ts';

const root = join(import.meta.dirname, '../..');

/** Patterns that are reported, as `file: source`, and why none can take long. */
const ALLOWED: Readonly<Record<string, string>> = {
  'src/clients/prompt-length-error.ts: <[^>]*>': 'the text is cut at 4,000 characters',
  'src/core/count-text.ts: \\B(?=(\\d{3})+$)': 'the digits of a number',
  'src/core/left-tool-calls.ts: ^\\s*([\\w.-]+)\\s*\\n```(?:json)?\\s*([^]*?)(?:```|$)': 'the end always matches',
  'src/core/left-tool-calls.ts: ^\\s*call:([\\w.-]+)\\s*([^]*)$': 'the end always matches',
  'src/files/input-digests.ts: [?#].*$': 'the end always matches',
  'src/files/parquet-values.ts: 0+$': 'the digits of a number',
  'src/tokenizer/pattern-risk.ts: \\\\[\\s\\S]|\\[(?:\\\\[\\s\\S]|[^\\]\\\\])*\\]|\\((?:\\?(?:[:=!>]|<[=!]|<\\w+>|[a-z-]+:))?|\\)|\\||[*+?]|\\{\\d+(?:,\\d*)?\\}|[\\s\\S]':
    'a pattern has at most 10,000 characters there',
  'src/tokenizer/pattern-risk.ts: ^\\{(\\d+)(,?)(\\d*)\\}$': 'the text is a quantifier, so it matches',
  'src/tokenizer/python-format.ts: 0+$': 'the digits of a number',
  'src/tokenizer/python-format.ts: \\B(?=(?:\\d{3})+$)': 'the digits of a number',
  'src/transport/quotes.ts:  ?\\u{f0a5e}[^\\u{f0a5f}]*(?:\\u{f0a5f}|$)': 'the end always matches',
  'src/cli/init/init-environment.ts: (?<=.)\\/+$': 'an argument of the command',
  'src/cli/options/parse-words.ts: =.*$': 'the end always matches',
  'src/cli/options/render-help.ts: ^\\n+|\\n+$': "the package's own help",
  'src/cli/score/score-from-options.ts: (?<=.)\\/+$': 'an argument of the command',
  'src/pipelines/servers/prompt-server.ts: \\([^)]*\\)|;.*': "the description of the package's own tool",
  'src/reports/evaluation/render-transcript.ts: <[^>]*(?:>|$)': 'the end always matches',
  'src/retrieval/dense/embedding-prefixes.ts: [/\\\\]+$': "the name of the user's model",
  'src/rounds/driver/shown-words.ts: ^([^=:\\s]+)(=|:\\s+)(.*)$': 'the end always matches',
  'src/sessions/training/training-dry-run.ts: =(.*)$': 'an argument of the command',
  'src/trainer/config/resolve-config.ts: [/\\\\]+$': "a path of the user's configuration",
  'src/trainer/records/step-advantages.ts: (step-\\d+)[^/\\\\]*?\\.jsonl(?:\\.thin)?((?:\\.gz)?)$': 'the name of a file',
  'environments/grpo-000/config.ts: [/\\\\]+$': "the name of the user's model",
  'environments/grpo-000/config.ts: qwen[-_ ]?3(?:[._p]\\d+(?![\\d.]*b\\b))?': "the name of the user's model",
  'src/files/records.ts: ("(?:[^"\\\\]|\\\\.)*")(\\s*:)?|[{}[\\]]': 'the text is JSON, so every string ends',
  'src/clients/vllm-image-probe.ts: "message":\\s*("(?:[^"\\\\]|\\\\.)*")': 'no string holds the bare quotes with which a match begins',
  'environments/self-play-code/baseline.ts: \'(?:[^\'\\\\\\n]|\\\\.)*\'|"(?:[^"\\\\\\n]|\\\\.)*"|-?\\d+(?:\\.\\d+)?':
    'one line of the prompt of a baseline without a model',
};

/** A quoted string with escapes: without an end, each escaped quote begins another try. scslre does not report it. */
const ESCAPES = /(["'])\(\?:\[\^\1[^\]]*\]\|\\\\[^)]*\)\*\1/;

/** True if the pattern can take more than linear time. */
function isSlow(source: string, flags: string): boolean {
  if (!/[*+]|,\}/.test(source)) return false;
  return (!flags.includes('y') && ESCAPES.test(source)) || analyse({ source, flags }, { maxReports: 1 }).reports.length > 0;
}

/** Source and flags of every pattern that a file writes as a literal. */
function patternsOf(path: string): (readonly [source: string, flags: string])[] {
  const found: (readonly [string, string])[] = [];
  const built = ({ callee, arguments: [source, flags] }: { callee: unknown; arguments: readonly unknown[] }) => {
    if ((callee as { name?: unknown }).name !== 'RegExp') return;
    const text = textOf(source);
    if (text !== null) found.push([text, textOf(flags) ?? '']);
  };
  new Visitor({
    Literal: (node) => {
      if ('regex' in node) found.push([node.regex.pattern, node.regex.flags]);
    },
    NewExpression: built,
    CallExpression: built,
  }).visit(parseSync(path, readFileSync(join(root, path), 'utf8')).program);
  return found;
}

/** The text of a string literal, or of a template without expressions, raw; null for anything else. */
function textOf(node: unknown): string | null {
  const { value, quasi, quasis = (quasi as { quasis?: unknown } | undefined)?.quasis } = (node ?? {}) as Record<string, unknown>;
  if (typeof value === 'string') return value;
  return Array.isArray(quasis) && quasis.length === 1 ? (quasis as { value: { raw: string } }[])[0]!.value.raw : null;
}

function slowPatterns(): string[] {
  const known = new Map<string, boolean>();
  const files = ['src', 'environments'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  );
  // AssemblyScript has no patterns.
  const modules = files.filter((path) => path.endsWith('.ts') && !path.includes(join('kernels', 'assembly')));
  return modules.flatMap((path) =>
    patternsOf(path).flatMap(([source, flags]) => {
      const key = `/${source}/${flags}`;
      const slow = known.get(key) ?? isSlow(source, flags);
      known.set(key, slow);
      return slow ? [`${path.replaceAll('\\', '/')}: ${source}`] : [];
    }),
  );
}

describe('the patterns of the package', () => {
  it('are all linear, but for those over short or own text', () => {
    expect([...new Set(slowPatterns())].toSorted()).toEqual(Object.keys(ALLOWED).toSorted());
  });
});

const MANY = 1_000_000;
const quotes = `"${'\\"'.repeat(MANY)}`;

/** The replaced patterns would take hours for each. */
describe('a million characters that match by halves', () => {
  it('are no JSON, at once', () => {
    expect(withoutNonFinite(quotes)).toBe(quotes);
    expect(() => parsedRecord(`{"a": NaN, "b": ${quotes}`)).toThrow('not JSON');
  });

  it('are no call of a tool, at once', () => {
    for (const text of [
      `\`\`\`${' '.repeat(MANY)}x`,
      `\`\`\`json${'\n'.repeat(MANY)}\`\`\`x`,
      `<invoke name="a"><parameter name=${'a'.repeat(MANY)}`,
    ])
      expect(leftToolCalls(text, 0, [{ name: 'a', description: '', parameters: { type: 'object', properties: {} } }]).attempts.length).toBeLessThan(
        2,
      );
  });

  it('are no end of a URL, no line break and no golden list, at once', () => {
    expect(withoutTrailingSlashes(`${'/'.repeat(MANY)}x`)).toHaveLength(MANY + 1);
    expect(onOneLine(`a${' '.repeat(MANY)}b`)).toHaveLength(MANY + 2);
    expect(readGoldenAnswers(`array([${']'.repeat(MANY)}x`, { name: 'a' }).ok).toBe(true);
    expect(refusedBy(403, Buffer.from(`${'1'.repeat(100)}x`))).toBe('other');
  });
});

describe('what replaced a pattern', () => {
  const random = Random.fromSeed(7);
  /** 5,000 texts of up to 12 of the pieces. */
  function* texts(pieces: readonly string[]): Generator<string> {
    for (let i = 0; i < 5_000; i++) yield Array.from({ length: random.integer(13) }, () => pieces[random.integer(pieces.length)]!).join('');
  }

  it('gives what the pattern gave', () => {
    for (const text of texts(['/', '/v1', 'a', '\n'])) {
      expect(withoutTrailingSlashes(text)).toBe(text.replace(/\/+$/, ''));
      expect(serverRoot(text)).toBe(text.replace(/\/+$/, '').replace(/\/v1$/, ''));
    }
    for (const text of texts([' ', '\n', '\r', '\t', 'a', '\u2028'])) expect(onOneLine(text)).toBe(text.replace(/\s*[\r\n]\s*/g, ' '));
    // Without an end, a string is no JSON either way.
    for (const text of texts(['"', '\\', 'NaN', '-', 'Infinity', ' ', 'a', '\n', '[', ']', ',']))
      expect(jsonOf(withoutNonFinite(text))).toEqual(
        jsonOf(text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/gs, (found) => (found.startsWith('"') ? found : 'null'))),
      );
  });
});

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return 'no JSON';
  }
}
