// Browsers start no worker for a page that is opened from disk. The search of these pages then runs in a frame of its own.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(frame, one)), Promise.resolve());
      load(frame, url).then(() => { const { waiting } = this; this.waiting = null; waiting.forEach((data) => this.postMessage(data)); });
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {}
  };
  const load = (frame, url) => new Promise((done, failed) => {
    const script = frame.contentDocument.createElement("script");
    script.src = new URL(url, document.baseURI);
    script.onload = done;
    script.onerror = failed;
    frame.contentDocument.body.append(script);
  });
}
