/** Starts the page: over the server that it came from, or over the answers inside its own file. */
import { render } from 'preact';
import { App } from './app.tsx';
import { openSource } from './source/open-source.ts';
import { SourceContext } from './source/source-context.ts';

const page = document.querySelector('#page');
if (page !== null) {
  const source = openSource();
  page.replaceChildren();
  render(
    <SourceContext.Provider value={source}>
      <App />
    </SourceContext.Provider>,
    page,
  );
}
