//! A real browser, driven through Chromium's DevTools protocol over pipes.
//!
//! A page that plays for long is tested in this folder, whose tests start early: others run
//! meanwhile.

mod trace;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Process of Chromium with one page. The process ends when this value is dropped.
pub struct Browser {
    chromium: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Messages that the page wrote on the console, and its uncaught errors.
    pub said: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.chromium.kill();
        let _ = self.chromium.wait();
    }
}

impl Browser {
    /// Starts Chromium with an empty page. Returns `None` if there is no Chromium.
    pub fn start(profile: &Path) -> Option<Browser> {
        if !Command::new("chromium").arg("--version").output().is_ok_and(|out| out.status.success())
        {
            eprintln!("skipped: no chromium here to show the page in");
            return None;
        }
        let mut chromium = Command::new("sh")
            // `timeout` ends a browser that hangs. The test then fails.
            .args(["-c", "exec timeout 240 chromium \"$@\" 3<&0 4>&1", "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = chromium.stdin.take().unwrap();
        let answers = BufReader::new(chromium.stdout.take().unwrap());
        let (session, said) = (None, Vec::new());
        let mut browser = Browser { chromium, requests, answers, session, last_id: 0, said };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a request. Returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut request = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(request.to_string().as_bytes()).unwrap();
        self.requests.write_all(b"\0").unwrap();
        loop {
            let mut message = Vec::new();
            self.answers.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            let on_console = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown"];
            let method = message["method"].as_str().unwrap_or_default();
            if on_console.contains(&method) || method == "Log.entryAdded" {
                self.said.push(message["params"].to_string());
            }
        }
    }

    /// Returns the value of a JavaScript expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Opens the page in a file at a fragment, such as `#end`.
    pub fn open(&mut self, page: &Path, place: &str) {
        // Leave the page first: opening another fragment of the same page would not reload the
        // page.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.until("location.href === 'about:blank'");
        self.call("Page.navigate", json!({ "url": format!("file://{}{place}", page.display()) }));
        self.until("document.readyState === 'complete' && location.protocol === 'file:'");
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(expression) != true {
            assert!(began.elapsed() < Duration::from_secs(120), "never: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sets the size of the window, and whether the system prefers dark colours.
    pub fn show(&mut self, width: u64, height: u64, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let mut params = json!({ "type": "keyDown", "key": key });
        if key.chars().count() == 1 {
            params["text"] = json!(key);
        }
        self.call("Input.dispatchKeyEvent", params);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Returns the text of the element of the page whose id is `id`.
    pub fn text(&mut self, id: &str) -> String {
        let text = self.value(&format!("document.getElementById('{id}').innerText"));
        text.as_str().unwrap_or_default().to_owned()
    }
}
