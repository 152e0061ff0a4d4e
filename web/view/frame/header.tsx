/** The line at the top: the current place, and the switches of the page. */
import type { VNode } from 'preact';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';
import type { Crumb } from './places.ts';
import type { Theme } from './theme.ts';

export interface HeaderProps {
  readonly crumbs: readonly Crumb[];
  readonly theme: Theme;
  readonly switchTheme: () => void;
  readonly showKeys: () => void;
}

const THEME_NAMES: Readonly<Record<Theme, string>> = { system: 'Auto', light: 'Light', dark: 'Dark' };

export function Header({ crumbs, theme, switchTheme, showKeys }: HeaderProps): VNode {
  return (
    <header class="header">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <nav aria-label="Where you are" class="crumbs">
        {crumbs.map(({ text, href, title = text }, i) => (
          <span class="crumb" key={i} title={plainText(title)}>
            {href === null ? (
              <span aria-current="page">
                <Text text={text} />
              </span>
            ) : (
              <a href={href}>
                <Text text={text} />
              </a>
            )}
          </span>
        ))}
      </nav>
      <button type="button" class="button quiet" title="Colours: as the system has them, light or dark" onClick={switchTheme}>
        {THEME_NAMES[theme]}
      </button>
      <button type="button" class="button quiet" title="Keys (?)" aria-label="Keys" onClick={showKeys}>
        ?
      </button>
    </header>
  );
}

/** The fragment of the address is the route, so the link itself moves the focus. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector('main')?.focus();
}
