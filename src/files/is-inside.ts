import { isAbsolute, relative, sep } from 'node:path';

/** Whether a path is the folder or lies below it. Links count as they are spelled, so that both must be real paths where somebody else writes there. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
