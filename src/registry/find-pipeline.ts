/** Finds the pipeline that a user names: a file here, or an example that is part of the package. */
import { existsSync } from 'node:fs';
import { isAbsolute, join, normalize } from 'node:path';
import { packageRoot } from '../data/package-root.ts';

export interface FoundPipeline {
  readonly path: string;
  /** True if it is in the package, and no file here has that name. */
  readonly isBundled: boolean;
}

/** `examples/search_o1.yaml` means the package's file if there is none here. */
export function findPipeline(named: string): FoundPipeline {
  const isHere = existsSync(named);
  const bundled = join(packageRoot(), named);
  const isExample = !isAbsolute(named) && /^examples[/\\][^/\\]+\.ya?ml$/.test(normalize(named));
  return !isHere && isExample && existsSync(bundled) ? { path: bundled, isBundled: true } : { path: named, isBundled: false };
}
