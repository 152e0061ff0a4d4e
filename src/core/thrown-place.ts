/** Where the user's own code threw, for messages to the author of an environment or another module. No stack frames: these are for -v. */
import { thrownText } from './errors.ts';

/** The error that the user's own code threw, and the line that threw it: `TypeError: no rows (at /home/me/source.ts:12:5)`. */
export function ownCodeText(thrown: unknown): string {
  if (!(thrown instanceof Error)) return thrownText(thrown);
  const place = thrownPlace(thrown.stack);
  return `${thrown.name}: ${thrown.message}${place === null ? '' : ` (${place})`}`;
}

/**
 * `at /home/me/source.ts:12:5`: the place in the user's code where the innermost error of a stack trace was thrown, or from where it called what threw; null if the trace has
 * none, such as one of a package or of Node alone.
 */
export function thrownPlace(stack: string | undefined): string | null {
  const innermost = stack?.split(CAUSED).at(-1) ?? '';
  for (const [, frame] of innermost.matchAll(/^[ \t]+at (?:.* \()?([^()\n]+:\d+:\d+)\)?$/gm)) {
    // The loader marks modules that it compiled by a query.
    const place = frame!.replace(/\?[^:)]*/, '').replace(/^file:\/\//, '');
    if (!FOREIGN_PLACE.test(place) && (OWN_FOLDER === null || !place.startsWith(OWN_FOLDER))) return `at ${place}`;
  }
  return null;
}

/** As `stackTrace` joins an error and its cause. */
const CAUSED = '\ncaused by ';
const FOREIGN_PLACE = /^node:|[\\/]node_modules[\\/]/;
/** Of this package's modules, by this module's own place: a page's script has no `import.meta`, and no such folder. */
const OWN_FOLDER = /at (?:.*\()?(?:file:\/\/)?([^()\n]*[\\/])core[\\/]thrown-place\.[jt]s:/.exec(new Error('here').stack ?? '')?.[1] ?? null;
