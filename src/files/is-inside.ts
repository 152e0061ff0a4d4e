import { isAbsolute, relative, sep } from 'node:path';

/** Tells whether a path is the folder or lies below it. Compares the paths as they are spelled: pass real paths if a link may lead elsewhere. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
