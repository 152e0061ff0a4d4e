/** Starts the page: over the server that it came from, or over the answers inside the file that it stands in. */
import { render } from 'preact';
import { App } from './app.tsx';
import { HttpSource } from './source/http-source.ts';
import { SourceContext } from './source/source-context.ts';
import { tokenOfFragment } from './source/token-of-fragment.ts';

const source = new HttpSource(tokenOfFragment());

const page = document.querySelector('#page');
if (page !== null) {
  page.replaceChildren();
  render(
    <SourceContext.Provider value={source}>
      <App />
    </SourceContext.Provider>,
    page,
  );
}
