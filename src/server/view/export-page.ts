/** Writes runs as one HTML file: the page with its style and script, and the answers to all of its requests. It opens from disk and makes no request. */
import { createHash } from 'node:crypto';
import { CancelledError, ConfigError } from '../../core/errors.ts';
import { ExportAnswers, type ExportLimits } from '../../viewing/export-answers.ts';
import type { OpenedView } from './open-view.ts';
import type { Page } from './read-page.ts';

export interface ExportPageOptions extends Pick<OpenedView, 'source'> {
  readonly page: Page;
  readonly limits?: ExportLimits;
  readonly signal: AbortSignal;
  /** Called from time to time with the bytes that are written. */
  readonly onProgress: (bytes: number) => void;
}

export interface Exported {
  readonly bytes: number;
  /** The runs that were left out, one line each. */
  readonly leftOut: readonly string[];
}

const REPORT_EVERY_MS = 3000;
const PIECE_CHARACTERS = 2 ** 20;

/** Gives the file to `write` piece by piece. Throws ConfigError for a page of another form, and CancelledError. */
export async function exportPage(
  write: (text: string) => Promise<void>,
  { source, page, limits = {}, signal, onProgress }: ExportPageOptions,
): Promise<Exported> {
  const [before, after] = pageAround(page);
  const answers = new ExportAnswers(source, limits);
  let [bytes, held] = [0, ''];
  const flush = async () => {
    const piece = held;
    held = '';
    bytes += Buffer.byteLength(piece, 'utf8');
    await write(piece);
  };
  const put = async (text: string) => {
    held += text;
    if (held.length > PIECE_CHARACTERS) await flush();
  };
  await put(`${before}{"answers":{`);
  let separator = '';
  let reportedAt = performance.now();
  for await (const [key, json] of answers.pairs(signal)) {
    if (signal.aborted) throw new CancelledError('Interrupted by the user');
    await put(`${separator}${inScript(JSON.stringify(key))}:${inScript(json)}`);
    separator = ',';
    if (performance.now() - reportedAt < REPORT_EVERY_MS) continue;
    reportedAt = performance.now();
    onProgress(bytes);
  }
  await put(`},"left_out":${inScript(JSON.stringify(answers.leftOut))}}${after}`);
  await flush();
  return { bytes, leftOut: answers.leftOut };
}

/** No text can end the element that holds it, or begin another. */
function inScript(json: string): string {
  return json.replaceAll('<', '\\u003c');
}

/** The page's HTML before and after its data. */
function pageAround(page: Page): [before: string, after: string] {
  const text = (name: 'index.html' | 'view.js' | 'view.css') => Buffer.from(page.get(name)!.bytes).toString('utf8');
  // Inside a string or a pattern of JavaScript the backslash changes nothing.
  const script = text('view.js').replace(/<(?=\/script|!--|script)/gi, '\\x3c');
  const style = text('view.css');
  if (/<\/style/i.test(style)) throw new ConfigError('The style of the page would end itself. Build the package again.');
  const policy = `default-src 'none'; script-src '${hashOf(script)}'; style-src '${hashOf(style)}'; img-src data:; base-uri 'none'; form-action 'none'`;
  const meta = `<meta http-equiv="content-security-policy" content="${policy}" />`;
  // Replaced by functions, because $ has a meaning in replacement texts.
  const html = text('index.html')
    .replace(/(<meta charset="utf-8" \/>)/, (charset) => `${charset}\n    ${meta}`)
    .replace(/<link rel="stylesheet" href="view\.css" \/>/, () => `<style>${style}</style>`);
  const [before, after] = html.split('<script src="view.js"></script>');
  if (after === undefined || !before!.includes(meta) || !before!.includes(style))
    throw new ConfigError('The page has another form than expected. Build the package again.');
  return [`${before}<script type="application/json" id="vf-view-data">`, `</script>\n    <script>${script}</script>${after}`];
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}`;
}
