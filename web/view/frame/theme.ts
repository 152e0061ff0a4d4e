/** Light or dark: the system's choice until the user makes one, which is kept for the next visit. */
import { useEffect, useState } from 'preact/hooks';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'vf-view-theme';
const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState(kept);
  useEffect(() => {
    if (theme === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A browser without storage follows the system next time.
    }
    dispatchEvent(new Event('themechange'));
  }, [theme]);
  return [theme, () => setTheme((now) => THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]!)];
}

function kept(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === value) ?? 'system';
  } catch {
    return 'system';
  }
}
