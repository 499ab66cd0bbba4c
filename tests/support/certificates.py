"""Certificates of an authority that the test makes, by OpenSSL's program: files of PEM."""
import ssl
import subprocess


class Authority:
    purposes = "serverAuth,clientAuth"  # of what issue() makes

    def __init__(self, folder, name="authority"):
        self.folder, self.certificate, self._key = folder, folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl("req", "-x509", "-subj", f"/CN={name}", "-days", 2, "-out", self.certificate,
                      *self._new_key(self._key))

    def issue(self, name, *alternative_names):
        """(certificate, key) for servers and clients; `alternative_names` as in `IP:127.0.0.1`."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        self._openssl("req", "-subj", f"/CN={name}", "-out", request, *self._new_key(key))
        extensions.write_text(f"extendedKeyUsage={self.purposes}\n" + (
            "subjectAltName=" + ",".join(alternative_names) if alternative_names else ""))
        self._openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                      "-CAcreateserial", "-days", 2, "-extfile", extensions, "-out", certificate)
        return certificate, key

    def issue_for(self, name, begin, end):
        """The same, valid between these times (YYYYMMDDHHMMSSZ)."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, config = self.folder / f"{name}.csr", self.folder / f"{name}.cnf"
        self._openssl("req", "-subj", f"/CN={name}", "-out", request, *self._new_key(key))
        (self.folder / f"{name}.index").touch()
        config.write_text(f"[ca]\ndefault_ca=here\n[here]\ndatabase={self.folder}/{name}.index\n"
                          f"new_certs_dir={self.folder}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\n"
                          "[any]\ncommonName=supplied\n")
        self._openssl("ca", "-batch", "-config", config, "-in", request, "-cert", self.certificate,
                      "-keyfile", self._key, "-startdate", begin, "-enddate", end, "-notext", "-out", certificate)
        return certificate, key

    def client(self, certificate, key):
        """What Python's own clients show and trust; under which name they ask does not matter."""
        context = ssl.create_default_context(cafile=self.certificate)
        context.check_hostname = False
        context.load_cert_chain(certificate, key)
        return context

    def _new_key(self, path):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]

    def _openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
