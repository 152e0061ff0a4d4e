/** Gives every screen the source that the page was opened with. */
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { ViewSource } from '../../../src/viewing/view-wire.ts';

export const SourceContext = createContext<ViewSource | null>(null);

export function useSource(): ViewSource {
  const source = useContext(SourceContext);
  if (source === null) throw new Error('The page has no source. Load it again.');
  return source;
}
